package cpuset

// shape describes a regular machine.
type shape struct {
	name                            string
	sockets, nodes, l3s, cores, smt int // nodes and l3s of the machine; cores of the machine
	l3, numa                        bool
}

// build numbers threads as Linux does on x86: first one thread of each core, then the next.
func (s shape) build() Topology {
	t := Topology{SMT: s.smt > 1}
	for id := range s.cores * s.smt {
		core := id % s.cores
		c := CPU{
			ID: id, Socket: core * s.sockets / s.cores, NUMA: Unknown, Die: 0, Cluster: Unknown,
			CoreID: core % (s.cores / s.sockets), Core: core, L2: core, L3: Unknown, Type: Standard,
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
		{"one CPU", 1, 1, 1, 1, 1, true, true},
		{"small VM without caches and NUMA", 1, 1, 1, 4, 1, false, false},
		{"A: desktop", 1, 1, 1, 8, 2, true, true},
		{"B: four L3", 1, 1, 4, 16, 2, true, true},
		{"C: two sockets with four L3 each", 2, 2, 8, 32, 2, true, true},
		{"two sockets, eight nodes, 384 CPUs", 2, 8, 24, 192, 2, true, true},
		{"Arm server without SMT", 2, 4, 4, 160, 1, true, true},
		{"POWER with SMT8", 2, 2, 16, 32, 8, true, true},
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
