// Package slurm is a neutral model of a Slurm cluster and the small interface
// through which programs talk to it.
//
// Names are Slurm's own. No version of Slurm's data parser shows through:
// package rest adapts each version to these types. Package cache keeps a live,
// shared view of one cluster, and slurmtest starts a real one for tests.
package slurm
