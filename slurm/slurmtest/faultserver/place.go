package faultserver

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// demand is what a job asks for on each of its nodes.
type demand struct {
	nodes, cpus int
	memory      uint64
	gres        []tres.GRES
	partition   string
}

// place finds the first nodes that have what is asked for.
func (m *Model) place(d demand) ([]slurm.NodeAllocation, bool) {
	var out []slurm.NodeAllocation
	for _, n := range m.Nodes {
		if len(out) == max(d.nodes, 1) {
			break
		}
		if slices.Contains(n.Partitions, d.partition) && !n.States.HasAny(slurm.NodeDown, slurm.NodeDrain, slurm.NodeFail) && m.fits(n, d) {
			out = append(out, m.grant(n, d))
		}
	}
	return out, len(out) == max(d.nodes, 1)
}

func (m *Model) fits(n slurm.Node, d demand) bool {
	cores, memory, gres := m.used(n.Name)
	if len(cores)+coresFor(n, d.cpus) > n.Sockets*n.Cores || memory+d.memory > n.RealMemory {
		return false
	}
	for _, want := range d.gres {
		if have := device(n, want.Name); len(busy(gres, want.Name))+int(want.Count) > int(have.Count) {
			return false
		}
	}
	return true
}

// grant takes the lowest free cores and devices of a node that has enough.
func (m *Model) grant(n slurm.Node, d demand) slurm.NodeAllocation {
	cores, _, gres := m.used(n.Name)
	out := slurm.NodeAllocation{
		Node: n.Name, Sockets: n.Sockets, CoresPerSocket: n.Cores, Memory: d.memory,
		Cores: lowest(coresFor(n, d.cpus), cores),
	}
	for _, want := range d.gres {
		out.GRES = append(out.GRES, slurm.GRESAllocation{
			Name: want.Name, Type: device(n, want.Name).Type, Count: want.Count,
			Indexes: lowest(int(want.Count), busy(gres, want.Name)),
		})
	}
	return out
}

func coresFor(n slurm.Node, cpus int) int {
	threads := max(n.Threads, 1)
	return (max(cpus, 1) + threads - 1) / threads
}

// lowest returns the n lowest numbers that aren't taken.
func lowest(n int, taken []int) []int {
	var out []int
	for i := 0; len(out) < n; i++ {
		if !slices.Contains(taken, i) {
			out = append(out, i)
		}
	}
	return out
}

// device returns the node's generic resource of that name.
func device(n slurm.Node, name string) tres.GRES {
	all, err := tres.ParseGRES(n.GRES)
	if err != nil {
		return tres.GRES{}
	}
	i := slices.IndexFunc(all, func(g tres.GRES) bool { return g.Name == name })
	if i < 0 {
		return tres.GRES{}
	}
	return all[i]
}

func busy(gres []slurm.GRESAllocation, name string) []int {
	var out []int
	for _, g := range gres {
		if g.Name == name {
			out = append(out, g.Indexes...)
		}
	}
	return out
}

// tresOf is what Slurm prints for a job's request.
func tresOf(cpus int, memory uint64, nodes int) string {
	return "cpu=" + strconv.Itoa(cpus) + ",mem=" + strconv.FormatUint(memory, 10) + "M,node=" + strconv.Itoa(nodes) + ",billing=" + strconv.Itoa(cpus)
}

// memoryOf reads the memory on each node from what tresOf wrote.
func memoryOf(text string) uint64 {
	var memory, nodes uint64 = 0, 1
	for part := range strings.SplitSeq(text, ",") {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "mem":
			memory, _ = strconv.ParseUint(strings.TrimSuffix(value, "M"), 10, 64)
		case "node":
			nodes, _ = strconv.ParseUint(value, 10, 64)
		}
	}
	return memory / max(nodes, 1)
}
