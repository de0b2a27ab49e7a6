// Package prom holds what Slinky offers to Prometheus against a real Prometheus: the pages of metrics, each query of
// each dashboard and rule, and the alerts. It has tests only. They run in the stage of real Slurm; Prometheus and
// promtool are Debian's, unpacked into the user's cache and never installed.
package prom
