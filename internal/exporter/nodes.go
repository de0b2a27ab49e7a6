package exporter

import (
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// nodes counts some nodes.
type nodes struct {
	total int
	// base counts nodes by their one base state; states by each of their words.
	base, states map[string]int
	// away nodes are down or don't respond; lostExternal ones are external and don't respond.
	drained, draining, away, lostExternal int

	// idle CPUs are no job's; of usable ones a job could have some now.
	cpus, effective, alloc, idle, usable uint64
	// Memory is in MiB.
	memory, memoryEffective, memoryAlloc, memoryFree uint64
	gpus, gpusAlloc                                  uint64
}

func newNodes() *nodes { return &nodes{base: map[string]int{}, states: map[string]int{}} }

// bases are the words of which a node has exactly one. What has none counts as UNKNOWN.
var bases = []string{
	slurm.NodeAllocated, slurm.NodeDown, slurm.NodeError, slurm.NodeFuture, slurm.NodeIdle, slurm.NodeMixed, slurm.NodeUnknown,
}

func baseOf(n *slurm.Node) string {
	for _, word := range bases {
		if n.States.Has(word) {
			return word
		}
	}
	return slurm.NodeUnknown
}

// node is what counts of one node.
type node struct {
	*slurm.Node
	effective, idle, usable     uint64
	memoryEffective, memoryFree uint64
	gres                        map[gres]*amount
}

// gres is a generic resource by name and type, as gpu and h100.
type gres struct{ name, kind string }

type amount struct{ total, alloc uint64 }

func readNode(n *slurm.Node) node {
	r := node{Node: n, gres: map[gres]*amount{}}
	r.effective = uint64(max(n.EffectiveCPUs, 0))
	if r.effective == 0 {
		r.effective = uint64(max(n.CPUs, 0))
	}
	r.idle = r.effective - min(uint64(max(n.AllocCPUs, 0)), r.effective)
	if usable(n) {
		r.usable = r.idle
	}
	r.memoryEffective = n.RealMemory - min(n.SpecializedMemory, n.RealMemory)
	free, known := n.FreeMemory.Get()
	switch {
	case known && !n.States.Has(slurm.NodeExternal):
		r.memoryFree = free
	default: // nobody reports what is free on a node without a slurmd
		r.memoryFree = r.memoryEffective - min(n.AllocMemory, r.memoryEffective)
	}
	r.count(n.GRES, func(a *amount, n uint64) { a.total += n })
	r.count(n.GRESUsed, func(a *amount, n uint64) { a.alloc += n })
	return r
}

// usable tells whether a job could start on a node that is free.
func usable(n *slurm.Node) bool {
	return !n.States.HasAny(slurm.NodeDown, slurm.NodeDrain, slurm.NodeFail, slurm.NodeNotResponding, slurm.NodeFuture,
		slurm.NodeError, slurm.NodeUnknown, slurm.NodeInvalidReg)
}

func (r node) count(text string, add func(*amount, uint64)) {
	list, err := tres.ParseGRES(text)
	if err != nil {
		return
	}
	for _, g := range list {
		key := gres{g.Name, g.Type}
		if r.gres[key] == nil {
			r.gres[key] = &amount{}
		}
		add(r.gres[key], g.Count)
	}
}

func (t *nodes) add(n node) {
	t.total++
	t.base[baseOf(n.Node)]++
	for _, word := range n.States {
		t.states[word]++
	}
	if n.States.Has(slurm.NodeDrain) {
		if n.States.HasAny(slurm.NodeAllocated, slurm.NodeMixed, slurm.NodeCompleting) {
			t.draining++
		} else {
			t.drained++
		}
	}
	if n.States.HasAny(slurm.NodeDown, slurm.NodeNotResponding) {
		t.away++
	}
	if n.States.Has(slurm.NodeExternal) && n.States.Has(slurm.NodeNotResponding) {
		t.lostExternal++
	}
	t.cpus += uint64(max(n.CPUs, 0))
	t.effective += n.effective
	t.alloc += uint64(max(n.AllocCPUs, 0))
	t.idle += n.idle
	t.usable += n.usable
	t.memory += n.RealMemory
	t.memoryEffective += n.memoryEffective
	t.memoryAlloc += n.AllocMemory
	t.memoryFree += n.memoryFree
	for key, a := range n.gres {
		if key.name == "gpu" {
			t.gpus += a.total
			t.gpusAlloc += a.alloc
		}
	}
}

// flags are the words of a node beside its base state.
func flags(n *slurm.Node) string {
	return strings.ToLower(strings.Join(slices.DeleteFunc(slices.Clone(n.States), func(w string) bool { return w == baseOf(n) }), ","))
}
