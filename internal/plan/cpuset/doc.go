// Package cpuset decides which CPUs a container gets. It knows a machine's
// topology as plain values, describes it as DRA devices, and chooses sets of
// CPUs for claims. It reads nothing: the topology comes from observe/sysfs, and
// what is free from the driver's ledger.
package cpuset
