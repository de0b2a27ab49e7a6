// Package exporter shows a Slurm cluster to Prometheus. It reads the live cache of Slurm,
// counts once after each change, and answers scrapes with what it has counted: a scrape asks
// Slurm nothing.
//
// The names are those of the published Slinky exporter (Published), those of slurmctld's own
// endpoint (Native), and ours for what both lack. Where a published value is wrong (memory in
// MiB under a name that ends in bytes, times in microseconds under seconds), ours is right.
package exporter
