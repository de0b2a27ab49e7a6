package cpuset

import (
	"fmt"
	"hash/fnv"
	"math"
)

// Spread says over which parts of a machine a claim's CPUs are spread.
type Spread string

// The parts.
const (
	OverNUMANodes Spread = "numanode"
	OverSockets   Spread = "socket"
	OverL3Caches  Spread = "l3cache"
	OverCores     Spread = "core"
)

func spreads() []Spread { return []Spread{OverNUMANodes, OverSockets, OverL3Caches, OverCores} }

func (s Spread) of() func(CPU) int {
	switch s {
	case OverSockets:
		return bySocket
	case OverL3Caches:
		return byL3
	case OverCores:
		return byCore
	default:
		return byNUMA
	}
}

// PickSpread chooses n of the free CPUs so that parts of the machine have as many each as what is free allows: of two parts that both
// have more free, neither gets more than one core more than the other. In each part they are chosen by Pick. Over cores
// it is a thread of each before it is a second one of any.
func PickSpread(t Topology, free Set, n int, by Spread) (Set, error) {
	free = free.Intersect(t.All())
	if n <= 0 || n > free.Len() {
		return Set{}, fmt.Errorf("%d CPUs were asked for and %d are free (%s)", n, free.Len(), free)
	}
	type part struct {
		free  Set
		share int
	}
	var parts []part
	for _, g := range t.GroupBy(by.of()) {
		if f := g.CPUs.Intersect(free); !f.Empty() {
			parts = append(parts, part{free: f})
		}
	}
	unit := 1
	if by != OverCores {
		unit = threads(t.GroupBy(byCore), free)
	}
	for left := n; left > 0; {
		// The one with the least that has some left, and of equals the first.
		next := -1
		for i, p := range parts {
			if p.share < p.free.Len() && (next < 0 || p.share < parts[next].share) {
				next = i
			}
		}
		p := &parts[next]
		more := min(unit, left, p.free.Len()-p.share)
		p.share, left = p.share+more, left-more
	}
	var out Set
	for _, p := range parts {
		if p.share == 0 {
			continue
		}
		picked, err := Pick(t, p.free, p.share)
		if err != nil {
			return Set{}, err
		}
		out = out.Union(picked)
	}
	return out, nil
}

// HomeOf is the one of several sets where somebody is at home, by a key of theirs: each set has as many at home as its size lets
// expect, and when sizes change, only those move who must. Empty sets are nobody's home.
func HomeOf(sets []Set, key string) Set {
	var home Set
	best := math.Inf(-1)
	for i, s := range sets {
		if s.Empty() {
			continue
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d", key, i)
		// FNV's upper bits hardly depend on the last bytes.
		x := h.Sum64()
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
		share := (float64(x>>11) + 0.5) / (1 << 53)
		if score := -float64(s.Len()) / math.Log(share); score > best {
			best, home = score, s
		}
	}
	return home
}
