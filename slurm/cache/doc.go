// Package cache keeps a live view of one Slurm cluster in memory. One poller
// asks slurmrestd, at a pace that follows need, and any number of readers and
// subscribers use what it finds, so that the load on Slurm doesn't grow with them.
//
// It polls the cheap list of job states and reads in full only what changed. On
// a cluster where nothing happens, that list and at most one other small call
// are made in each period; every job that waits adds a call in 15 s, at most 16 a second in all.
//
// What Slurm didn't say is never taken for gone: a failed answer changes
// nothing, and a job or node that is missing from a list is removed only after
// Slurm said of that one that it doesn't exist. Until then the last good view
// stays, and Age tells how old it is.
//
// Everything that a reader or subscriber gets is its own, to keep and to change.
package cache
