package demand

import (
	"cmp"
	"slices"

	"github.com/slinky-hpc/slinky/slurm/tres"
)

// matched is a request with the classes that could serve it, the cheapest first.
type matched struct {
	*ask
	// classes of each alternative of the constraints.
	classes [][]*class
	// sets are those in the job's partitions.
	sets []int
	// failed is why it couldn't be placed: what is left only shrinks, so it can't be later either.
	failed *verdict
}

func (p *planner) match(r request) *matched {
	if m, ok := p.asks[r]; ok {
		return m
	}
	m := &matched{ask: readRequest(r)}
	p.asks[r] = m
	there := p.in[m.partitions[0]]
	for _, other := range m.partitions[1:] {
		for _, c := range p.in[other] {
			if !slices.Contains(there, c) {
				there = append(slices.Clip(there), c)
			}
		}
	}
	for _, c := range there {
		if c.set >= 0 && !slices.Contains(m.sets, c.set) {
			m.sets = append(m.sets, c.set)
		}
	}
	if m.problem != "" {
		return m
	}
	asked := m.gres()
	for _, constraint := range m.constraints {
		var classes []*class
		for _, c := range there {
			if (len(constraint.Terms) == 0 || constraint.Match(c.features...)) && m.fit(c.shape.stock(), c.shape, true) > 0 {
				classes = append(classes, c)
			}
		}
		slices.SortStableFunc(classes, func(a, b *class) int {
			return cmp.Or(cmp.Compare(p.priority(b), p.priority(a)), a.shape.cost(asked, b.shape))
		})
		m.classes = append(m.classes, classes)
	}
	return m
}

func (p *planner) priority(c *class) int32 {
	if c.set < 0 {
		return 0
	}
	return p.Sets[c.set].Priority
}

func overlap(a, b []string) bool {
	for _, x := range a {
		if slices.Contains(b, x) {
			return true
		}
	}
	return false
}

// place plans where one job runs. It returns the nodes to use, or why there are none.
func (p *planner) place(m *matched) ([]choice, *verdict) {
	if m.failed != nil {
		return nil, m.failed
	}
	for _, classes := range m.classes {
		if found := p.try(m, classes); found != nil {
			return found, nil
		}
	}
	for _, classes := range m.classes {
		if !slices.ContainsFunc(classes, func(c *class) bool { return c.soon }) {
			continue // there is nothing that wasn't counted on
		}
		if found := m.choose(slices.Concat(p.existing(m, classes, true), p.fresh(m, classes))); found != nil {
			return found, nil
		}
	}
	m.failed = p.explain(m)
	return nil, m.failed
}

// try places a job without counting on the end of others: on what is there, or else with the workers
// of the first class that is enough, or else with those of several.
func (p *planner) try(m *matched, classes []*class) []choice {
	there := p.existing(m, classes, false)
	if found := m.choose(there); found != nil {
		return found
	}
	fresh := p.fresh(m, classes)
	for i := range fresh {
		if found := m.choose(append(slices.Clone(there), fresh[i])); found != nil {
			return found
		}
		if found := m.choose(fresh[i : i+1]); found != nil {
			return found
		}
	}
	return m.choose(slices.Concat(there, fresh))
}

// existing are the nodes that are there or on their way, until it is called again. If ends count, busy ones whose jobs end soon
// are whole again.
func (p *planner) existing(m *matched, classes []*class, ends bool) []candidate {
	out := p.scratch[:0]
	for _, c := range classes {
		bins := c.bins
		if ends {
			bins = slices.Concat(c.bins, c.full)
		}
		for _, b := range bins {
			left, idle := b.left, b.idle
			if ends && b.soon {
				left, idle = c.shape.stock(), true
			}
			fit := m.fit(left, c.shape, idle)
			if nodes := m.allowed(b); fit > 0 && nodes > 0 {
				out = append(out, candidate{class: c, bin: b, nodes: nodes, left: left, fit: fit})
			}
		}
	}
	p.scratch = out
	if m.nodes == 1 && len(m.perJob) == 0 {
		// A job that fits into one node goes where the least is left, so that whole nodes stay free.
		best := -1
		for i, c := range out {
			if c.fit >= m.tasks && (best < 0 || c.left.cpus < out[best].left.cpus) {
				best = i
			}
		}
		if best >= 0 {
			return out[best : best+1]
		}
	}
	slices.SortStableFunc(out, byFit)
	return out
}

// allowed is how many nodes of a bin a job may use that excludes some by name.
func (a *ask) allowed(b *bin) int {
	if len(a.excluded) == 0 || b.names == nil {
		return b.nodes
	}
	n := 0
	for _, name := range b.names {
		if !slices.Contains(a.excluded, name) {
			n++
		}
	}
	return n
}

// fresh are the workers that could be added, in the order of the classes.
func (p *planner) fresh(m *matched, classes []*class) []candidate {
	var out []candidate
	for _, c := range classes {
		if c.spare <= 0 || m.waited < min(p.Sets[c.set].PendingTime, p.patience) {
			continue
		}
		whole := c.shape.stock()
		out = append(out, candidate{class: c, nodes: c.spare, left: whole, fit: m.fit(whole, c.shape, true)})
	}
	return out
}

// commit takes the nodes for a number of jobs like this one, as many as they have room for, and
// returns that number.
func (p *planner) commit(m *matched, choices []choice, jobs int) (placed int) {
	if len(choices) == 1 && choices[0].take == 1 {
		return p.commitAlike(m, choices[0], jobs)
	}
	tasks, wide, nodes := m.tasks, slices.Clone(m.perJob), 0
	for _, c := range choices {
		nodes += c.take
	}
	for _, c := range choices {
		for range c.take {
			nodes--
			here := max(1, min(c.fit, tasks-nodes)) // each of the others has a task, too
			tasks -= here
			p.use(m, c.candidate, 1, m.fill(c.left, c.class.shape, here, share(wide, c.left.gres)))
		}
	}
	return 1
}

// share takes from wide what a node has of it.
func share(wide, have []tres.GRES) []tres.GRES {
	var part []tres.GRES
	for i := range wide {
		n := min(wide[i].Count, count(have, wide[i]))
		part = append(part, tres.GRES{Name: wide[i].Name, Type: wide[i].Type, Count: n})
		wide[i].Count -= n
	}
	return part
}

// commitAlike places as many one-node jobs as the nodes of a candidate have room for.
func (p *planner) commitAlike(m *matched, c choice, jobs int) (placed int) {
	left, each := c.left, 0
	for each < jobs && m.fit(left, c.class.shape, each == 0) >= m.tasks {
		left = m.fill(left, c.class.shape, m.tasks, m.perJob)
		each++
		if left.unbounded {
			each = jobs
		}
	}
	each = max(1, each)
	if nodes := min(jobs/each, c.nodes); nodes > 0 {
		p.use(m, c.candidate, nodes, left)
		return nodes * each
	}
	left = c.left
	for range jobs {
		left = m.fill(left, c.class.shape, m.tasks, m.perJob)
	}
	p.use(m, c.candidate, 1, left)
	return jobs
}

// use moves nodes of a candidate into a bin of their own, with what is then left of them.
func (p *planner) use(m *matched, c candidate, nodes int, left stock) {
	now := &bin{left: left, nodes: nodes}
	if c.bin == nil {
		now.added = true
		c.class.spare -= nodes
		p.used.added[c.class.set] += nodes
	} else {
		switch now.added = c.bin.added; {
		case c.bin.added:
			p.used.added[c.class.set] += 0
		case c.bin.names == nil && c.class.set >= 0:
			p.used.coming[c.class.set] = true
		}
		now.names = m.pop(c.bin, nodes)
		c.bin.nodes -= nodes
		if c.bin.nodes == 0 {
			gone := func(b *bin) bool { return b == c.bin }
			c.class.bins, c.class.full = slices.DeleteFunc(c.class.bins, gone), slices.DeleteFunc(c.class.full, gone)
		}
	}
	if left.cpus > 0 || left.unbounded {
		c.class.bins = append(c.class.bins, now)
	}
}

// pop takes names out of a bin that the job may use.
func (a *ask) pop(b *bin, n int) []string {
	if b.names == nil {
		return nil
	}
	var taken, rest []string
	for _, name := range b.names {
		if len(taken) < n && !slices.Contains(a.excluded, name) {
			taken = append(taken, name)
		} else {
			rest = append(rest, name)
		}
	}
	b.names = rest
	return taken
}
