// Package workload plans the one Slurm job that stands for a pod or a group of
// pods: who belongs together, what the job asks for, which nodes can't be used,
// and what to do next. It is pure: no client, no clock, no environment.
package workload
