package slurm

import "slices"

// Clone returns a copy that shares no memory with j.
func (j Job) Clone() Job {
	j.States = slices.Clone(j.States)
	j.Flags = slices.Clone(j.Flags)
	return j
}

// External tells whether the job only holds resources.
func (j Job) External() bool { return slices.Contains(j.Flags, FlagExternalJob) }

// Clone returns a copy that shares no memory with n.
func (n Node) Clone() Node {
	n.States = slices.Clone(n.States)
	n.Partitions = slices.Clone(n.Partitions)
	n.Features = slices.Clone(n.Features)
	n.ActiveFeatures = slices.Clone(n.ActiveFeatures)
	return n
}

// Clone returns a copy that shares no memory with a.
func (a Allocation) Clone() Allocation {
	a.Nodes = slices.Clone(a.Nodes)
	for i := range a.Nodes {
		n := &a.Nodes[i]
		n.Cores = slices.Clone(n.Cores)
		n.GRES = slices.Clone(n.GRES)
		for k := range n.GRES {
			n.GRES[k].Indexes = slices.Clone(n.GRES[k].Indexes)
		}
	}
	return a
}
