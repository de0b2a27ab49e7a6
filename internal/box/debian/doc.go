// Package debian gets what the box needs from the machine's own Debian mirror: host packages, and root file systems of the suite
// whose containerd and Slurm the box runs.
package debian
