package cpuset

import (
	"cmp"
	"slices"
)

// Unknown is the number of what the machine doesn't say.
const Unknown = -1

// CPU is one online logical CPU. Numbers are the kernel's; those that the kernel
// doesn't give are Unknown.
type CPU struct {
	ID      int
	Socket  int
	NUMA    int
	Die     int
	Cluster int
	// CoreID is the kernel's core_id, which begins anew on each socket.
	CoreID int
	// Core is the lowest CPU of the same core: unique on the machine, and the
	// same for all threads of the core, however many there are.
	Core int
	// L2 and L3 are the ids of the caches.
	L2, L3 int
	Type   CoreType
	// Capacity is the kernel's cpu_capacity: 1024 for the strongest CPU.
	Capacity int
	// Isolated CPUs are kept from the kernel's scheduler by its command line.
	Isolated bool
}

// CoreType tells strong from weak cores.
type CoreType string

// The core types as the driver publishes them.
const (
	Standard    CoreType = "standard"
	Performance CoreType = "p-core"
	Efficiency  CoreType = "e-core"
)

// Topology is a machine's online CPUs.
type Topology struct {
	// CPUs are sorted by ID.
	CPUs []CPU
	// SMT tells whether the machine runs several threads per core.
	SMT bool
	// PCIeRoots are sorted by name.
	PCIeRoots []Root
	// Memory is that of the NUMA nodes, sorted by node.
	Memory []NodeMemory
}

// All is the set of the CPUs.
func (t Topology) All() Set {
	var s Set
	for _, c := range t.CPUs {
		s.add(c.ID)
	}
	return s
}

// CPU finds a CPU by its number.
func (t Topology) CPU(id int) (CPU, bool) {
	i, ok := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return CPU{}, false
	}
	return t.CPUs[i], true
}

// Group is a set of CPUs with something in common.
type Group struct {
	ID   int
	CPUs Set
}

// GroupBy collects the CPUs with the same id, sorted by it.
func (t Topology) GroupBy(id func(CPU) int) []Group {
	type member struct{ group, cpu int }
	members := make([]member, len(t.CPUs))
	for i, c := range t.CPUs {
		members[i] = member{id(c), c.ID}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.cpu, b.cpu)) })
	groups, words := 0, 0
	for i, m := range members {
		if i+1 == len(members) || members[i+1].group != m.group {
			groups, words = groups+1, words+m.cpu/64+1
		}
	}
	// A machine may have hundreds of groups: their sets are parts of one array.
	out, all, first := make([]Group, 0, groups), make([]uint64, words), 0
	for i, m := range members {
		if i+1 < len(members) && members[i+1].group == m.group {
			continue
		}
		n := m.cpu/64 + 1
		g := Group{m.group, Set{all[:n:n]}}
		for _, member := range members[first : i+1] {
			g.CPUs.add(member.cpu)
		}
		out, all, first = append(out, g), all[n:], i+1
	}
	return out
}

// bySocket, byNUMA, byL3 and byCore say which group a CPU is in. A machine that
// doesn't speak of NUMA is one node; without L3 a CPU is in no group.
func bySocket(c CPU) int { return max(c.Socket, 0) }
func byNUMA(c CPU) int   { return max(c.NUMA, 0) }
func byL3(c CPU) int     { return c.L3 }
func byCore(c CPU) int   { return c.Core }

// ofType are those of the CPUs whose cores are of the type.
func (t Topology) ofType(cpus Set, kind CoreType) Set {
	var s Set
	for _, c := range t.CPUs {
		if c.Type == kind && cpus.Has(c.ID) {
			s.add(c.ID)
		}
	}
	return s
}

// NUMANodes are the CPUs of each NUMA node, in their order. A machine that doesn't speak of NUMA is one.
func (t Topology) NUMANodes() []Set {
	var out []Set
	for _, g := range t.GroupBy(byNUMA) {
		out = append(out, g.CPUs)
	}
	return out
}

// MemoryNodes are the NUMA nodes of the CPUs; empty if the machine has none.
func (t Topology) MemoryNodes(cpus Set) Set {
	var s Set
	for _, c := range t.CPUs {
		if cpus.Has(c.ID) && c.NUMA >= 0 {
			s.add(c.NUMA)
		}
	}
	return s
}

// Cores is the number of different cores among the CPUs.
func (t Topology) Cores(cpus Set) int {
	var cores Set
	for _, c := range t.CPUs {
		if cpus.Has(c.ID) {
			cores.add(c.Core)
		}
	}
	return cores.Len()
}

// wholeOf is what is left of cpus without the cores that it has only a part of.
func wholeOf(cores []Group, cpus Set) Set {
	var out Set
	for _, core := range cores {
		if core.CPUs.Within(cpus) {
			out = out.Union(core.CPUs)
		}
	}
	return out
}

// threads is how many threads each core of the CPUs has; 1 if they differ, where no number of CPUs means whole cores.
func threads(cores []Group, cpus Set) int {
	n := 0
	for _, core := range cores {
		if !core.CPUs.Overlaps(cpus) {
			continue
		}
		if n != 0 && n != core.CPUs.Len() {
			return 1
		}
		n = core.CPUs.Len()
	}
	return max(n, 1)
}
