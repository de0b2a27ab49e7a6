package cpuset

import (
	"cmp"
	"fmt"
	"slices"
)

// Pick chooses n of the free CPUs so that they are close together and leave
// large pieces for others: whole NUMA nodes and sockets, whole L3 groups, one L3
// group, whole cores, single threads, and of equals the fullest first. It is what
// kubelet's static policy does with prefer-align-cpus-by-uncorecache, with
// groups compared by their members: averages mislead on machines whose groups
// differ in size.
func Pick(t Topology, free Set, n int) (Set, error) {
	p := picker{free: free.Intersect(t.All()), need: n}
	switch {
	case n <= 0:
		return Set{}, fmt.Errorf("%d CPUs were asked for: ask for at least 1", n)
	case n > p.free.Len():
		return Set{}, fmt.Errorf("%d CPUs were asked for and %d are free (%s)", n, p.free.Len(), p.free)
	}
	p.sockets, p.nodes, p.l3s, p.cores = t.GroupBy(bySocket), t.GroupBy(byNUMA), t.GroupBy(byL3), t.GroupBy(byCore)
	for _, step := range []func(){p.wholeNodesAndSockets, p.cacheGroups, p.wholeCores, p.threads} {
		if step(); p.need == 0 {
			break
		}
	}
	return p.taken, nil
}

type picker struct {
	free, taken Set
	need        int
	// All groups of the machine, by level.
	sockets, nodes, l3s, cores []Group
}

func (p *picker) take(s Set) {
	p.free, p.taken, p.need = p.free.Minus(s), p.taken.Union(s), p.need-s.Len()
}

// group is a Group with what is free of it.
type group struct {
	Group
	free Set
}

// groups lists the groups of a level that have free CPUs, those with the fewest first.
func (p *picker) groups(level []Group, within Set) []group {
	within = within.Intersect(p.free)
	var out []group
	for _, g := range level {
		if g.ID >= 0 && g.CPUs.Overlaps(within) {
			out = append(out, group{g, g.CPUs.Intersect(within)})
		}
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(a.free.Len(), b.free.Len()) })
	return out
}

// whole tells whether all of the group is free.
func (g group) whole() bool { return g.free.Equal(g.CPUs) }

// nodesHoldSockets tells which of the two is the larger level.
func (p *picker) nodesHoldSockets() bool {
	return len(p.sockets) >= len(p.nodes)
}

// levels are NUMA node and socket, the larger one first.
func (p *picker) levels() [2][]Group {
	if p.nodesHoldSockets() {
		return [2][]Group{p.nodes, p.sockets}
	}
	return [2][]Group{p.sockets, p.nodes}
}

func (p *picker) takeWhole(groups []group) {
	for _, g := range groups {
		if g.whole() && g.CPUs.Len() <= p.need {
			p.take(g.CPUs)
		}
	}
}

func (p *picker) wholeNodesAndSockets() {
	for _, level := range p.levels() {
		p.takeWhole(p.groups(level, p.free))
	}
}

// cacheGroups takes L3 groups: whole ones as long as the need is not smaller, then
// a part of one, if one alone has exactly what is still needed.
func (p *picker) cacheGroups() {
	var groups []group
	for _, node := range p.byNode() {
		groups = append(groups, p.groups(p.l3s, node.free)...)
	}
	// A group that lies in two nodes is seen twice; its second sight has nothing whole to take.
	p.takeWhole(groups)
	for _, g := range groups {
		if p.need == 0 {
			return
		}
		if part := p.partOf(g); part.Len() == p.need {
			p.take(part)
		}
	}
}

// byNode lists NUMA nodes, those with the fewest free CPUs first, socket by
// socket if sockets are the larger level.
func (p *picker) byNode() []group {
	if p.nodesHoldSockets() {
		return p.groups(p.nodes, p.free)
	}
	var out []group
	for _, socket := range p.groups(p.sockets, p.free) {
		out = append(out, p.groups(p.nodes, socket.free)...)
	}
	return out
}

// partOf is what the lowest cores of a group have free: as many cores as would
// be enough if they were all free, less one thread where the need is odd.
func (p *picker) partOf(g group) Set {
	free := g.free.Intersect(p.free)
	width, cores := 0, p.groups(p.cores, free)
	for _, c := range cores {
		width = max(width, c.CPUs.Len())
	}
	if width == 0 {
		return Set{}
	}
	slices.SortFunc(cores, func(a, b group) int { return cmp.Compare(a.ID, b.ID) })
	var part Set
	for _, c := range cores[:min(len(cores), (p.need+width-1)/width)] {
		part = part.Union(c.free)
	}
	if surplus := part.Len() - p.need; surplus > 0 && surplus < width {
		list := part.List()
		part = Of(list[:p.need]...)
	}
	return part
}

// coresInOrder lists the cores that have free CPUs, level by level.
func (p *picker) coresInOrder() []group {
	var out []group
	levels := p.levels()
	for _, outer := range p.groups(levels[0], p.free) {
		for _, inner := range p.groups(levels[1], outer.free) {
			out = append(out, p.groups(p.cores, inner.free)...)
		}
	}
	return out
}

func (p *picker) wholeCores() { p.takeWhole(p.coresInOrder()) }

func (p *picker) threads() {
	for _, core := range p.coresInOrder() {
		for c := range core.free.All() {
			if p.need == 0 {
				return
			}
			p.take(Of(c))
		}
	}
}
