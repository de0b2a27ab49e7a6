// Package dracpu is a node's driver for CPUs. Kubelet asks it to prepare claims
// (prepare.go), it writes down who has which CPUs (ledger.go, checkpoint.go,
// cdi.go), and the container runtime asks it about each container (nri.go,
// containers.go). Which CPUs a claim gets is decided by plan/cpuset.
package dracpu
