// Package controller keeps Kubernetes and Slurm in step: nodes are mirrored, jobs
// end with their pods and pods with their jobs.
package controller
