package demand

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// Shape is what a worker offers to jobs.
type Shape struct {
	// CPUs is 0 where it isn't known; then one worker is started to find out.
	CPUs int
	// Threads is the number of CPUs of a core, as jobs get whole cores.
	Threads int
	// Memory is in MiB, 0 where it isn't known.
	Memory   uint64
	GRES     []tres.GRES
	Features []string
}

// Known tells whether jobs can be held against it.
func (s Shape) Known() bool { return s.CPUs > 0 }

// ShapeOf is what a registered node offers when it is idle.
func ShapeOf(n slurm.Node) Shape {
	s := Shape{CPUs: n.CPUs, Threads: max(1, n.Threads), Memory: n.RealMemory, Features: n.Features}
	if n.EffectiveCPUs > 0 {
		s.CPUs = n.EffectiveCPUs
	}
	if n.SpecializedMemory < n.RealMemory {
		s.Memory -= n.SpecializedMemory
	}
	s.GRES = gres(n.GRES)
	return s
}

// gres reads a node's generic resources. A text that can't be read offers none.
func gres(text string) []tres.GRES {
	list, err := tres.ParseGRES(text)
	if err != nil {
		return nil
	}
	return list
}

// stock is what is left of a node.
type stock struct {
	cpus    int
	memory  uint64
	gres    []tres.GRES
	threads int
	// unbounded tells that CPUs aren't known.
	unbounded bool
}

func (s Shape) stock() stock {
	return stock{cpus: s.CPUs, memory: s.Memory, gres: s.GRES, threads: max(1, s.Threads), unbounded: !s.Known()}
}

// free is what jobs have left of a node.
func free(n slurm.Node, whole Shape) stock {
	s := whole.stock()
	s.cpus = max(0, s.cpus-n.AllocCPUs)
	s.memory -= min(s.memory, n.AllocMemory)
	if used := gres(n.GRESUsed); len(used) > 0 {
		s.gres = without(s.gres, used, 1)
	}
	return s
}

// without takes n times some resources away. The typeless are taken from any type.
func without(have, take []tres.GRES, n uint64) []tres.GRES {
	if len(take) == 0 || n == 0 {
		return have
	}
	have = slices.Clone(have)
	for _, t := range take {
		left := t.Count * n
		for i := range have {
			if have[i].Name == t.Name && (t.Type == "" || t.Type == have[i].Type) {
				part := min(left, have[i].Count)
				have[i].Count -= part
				left -= part
			}
		}
	}
	return have
}

// count is how many of a resource there are.
func count(have []tres.GRES, of tres.GRES) uint64 {
	var n uint64
	for _, h := range have {
		if h.Name == of.Name && (of.Type == "" || of.Type == h.Type) {
			n += h.Count
		}
	}
	return n
}

// times is how many times ask fits into have, at most limit.
func times(have, ask []tres.GRES, limit int) int {
	for _, a := range ask {
		if a.Count > 0 {
			limit = int(min(uint64(limit), count(have, a)/a.Count))
		}
	}
	return limit
}

// cost orders shapes: what has generic resources that a job doesn't ask for comes last, small before large.
func (s Shape) cost(asked []tres.GRES, other Shape) int {
	spare := func(have []tres.GRES) (n uint64) {
		for _, h := range have {
			if !slices.ContainsFunc(asked, func(a tres.GRES) bool { return a.Name == h.Name }) {
				n += h.Count
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(spare(s.GRES), spare(other.GRES)), cmp.Compare(s.CPUs, other.CPUs), cmp.Compare(s.Memory, other.Memory))
}

// String is as in "8 CPUs, 32000 MiB, gpu:a100:4".
func (s Shape) String() string {
	if !s.Known() {
		return "an unknown size"
	}
	parts := []string{strconv.Itoa(s.CPUs) + " CPUs"}
	if s.Memory > 0 {
		parts = append(parts, strconv.FormatUint(s.Memory, 10)+" MiB")
	}
	for _, g := range s.GRES {
		parts = append(parts, tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count}.String())
	}
	return strings.Join(parts, ", ")
}
