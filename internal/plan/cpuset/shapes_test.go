package cpuset

// shape describes a regular machine.
type shape struct {
	name                            string
	sockets, nodes, l3s, cores, smt int // nodes and l3s of the machine; cores of the machine
	l3, numa                        bool
	beside                          bool // threads of a core have numbers side by side
}

// build numbers threads as Linux does on x86: first one thread of each core, then the next.
func (s shape) build() Topology {
	t := Topology{SMT: s.smt > 1}
	for id := range s.cores * s.smt {
		core := id % s.cores
		if s.beside {
			core = id / s.smt
		}
		c := CPU{
			ID: id, Socket: core * s.sockets / s.cores, NUMA: Unknown, Die: 0, Cluster: Unknown,
			CoreID: core % (s.cores / s.sockets), Core: core, L2: core, L3: Unknown, Type: Standard,
		}
		if s.beside {
			c.Core = core * s.smt
		}
		if s.numa {
			c.NUMA = core * s.nodes / s.cores
		}
		if s.l3 {
			c.L3 = core * s.l3s / s.cores
		}
		t.CPUs = append(t.CPUs, c)
	}
	return t
}

func shapes() []shape {
	return []shape{
		{"one CPU", 1, 1, 1, 1, 1, true, true, false},
		{"small VM without caches and NUMA", 1, 1, 1, 4, 1, false, false, false},
		{"A: desktop", 1, 1, 1, 8, 2, true, true, false},
		{"B: four L3", 1, 1, 4, 16, 2, true, true, false},
		{"C: two sockets with four L3 each", 2, 2, 8, 32, 2, true, true, false},
		{"two sockets, eight nodes, 384 CPUs", 2, 8, 24, 192, 2, true, true, false},
		{"Arm server without SMT", 2, 4, 4, 160, 1, true, true, false},
		{"virtual machine with threads side by side", 2, 2, 2, 48, 2, true, true, true},
		{"POWER with SMT8", 2, 2, 16, 32, 8, true, true, false},
	}
}

// hybrid has two strong cores of two threads and four weak ones of one.
func hybrid() Topology {
	var t Topology
	for id := range 8 {
		c := CPU{ID: id, CoreID: id, Core: id, L2: id / 2, Type: Efficiency}
		if id < 4 {
			c.Core, c.CoreID, c.Type = id/2*2, id/2, Performance
		}
		t.CPUs = append(t.CPUs, c)
	}
	t.SMT = true
	return t
}
