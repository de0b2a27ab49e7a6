// Package cluster plans the objects of a Slurm control plane: slurmctld, slurmdbd and
// slurmrestd. It is pure: what it needs to know about other objects is an argument.
package cluster
