package demand

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// planner is one planning.
type planner struct {
	Facts
	classes []*class
	// in are the classes of each partition.
	in   map[string][]*class
	asks map[request]*matched
	// patience is the longest PendingTime.
	patience time.Duration
	sets     []tally
	// ends are when the jobs on a node end at the latest.
	ends map[string]time.Time
	// scratch is memory for candidates.
	scratch []candidate
	// used is what the job that is being placed uses, by set: workers to add, be they its own (counted)
	// or another job's (0), and workers on their way.
	used struct {
		added  map[int]int
		coming map[int]bool
	}
}

// tally is what is found out about a set.
type tally struct {
	// have is the number of workers that there are or will be; own is the class of new ones.
	have int32
	own  *class
	// idle are the workers that have been without a job for long enough to go, by node; nameless
	// ones are pods that never registered.
	idle     map[string]bool
	nameless int
	resting  int
	// stuck are pods that should have registered long ago.
	stuck int
	added int32
	// served counts the jobs for which workers are added, starting those that wait for such to come up.
	served, starting int
	unmet            tallied
	never            map[string]tallied
	blocked          map[string]tallied
}

// tallied counts jobs and remembers the one with the lowest id.
type tallied struct {
	jobs  int
	first uint32
}

func (t *tallied) add(id uint32, n int) {
	if t.jobs == 0 || id < t.first {
		t.first = id
	}
	t.jobs += n
}

// Make plans the number of workers of each set.
func Make(f Facts) Plan {
	p := planner{Facts: f, in: map[string][]*class{}, asks: map[request]*matched{}, sets: make([]tally, len(f.Sets)), ends: ends(f.Jobs)}
	p.used.added, p.used.coming = map[int]int{}, map[int]bool{}
	for i := range f.Sets {
		p.patience = max(p.patience, f.Sets[i].PendingTime)
		p.sets[i].never, p.sets[i].blocked = map[string]tallied{}, map[string]tallied{}
		p.addSet(i)
	}
	for i := range f.Others {
		if usable(&f.Others[i]) {
			p.addNode(-1, &f.Others[i])
		}
	}
	p.reserve()
	for _, c := range p.classes {
		for _, name := range c.partitions {
			p.in[name] = append(p.in[name], c)
		}
	}
	queue := p.queue()
	for len(queue) > 0 {
		n := 1
		for n < len(queue) && queue[n].leader == queue[0].leader {
			n++
		}
		if n > 1 {
			p.placeTogether(queue[:n])
		} else {
			p.placeAll(queue[0])
		}
		queue = queue[n:]
	}
	var plan Plan
	for i := range p.Sets {
		plan.Decisions = append(plan.Decisions, p.decide(i))
	}
	return plan
}

// ends are when nodes get free if their jobs use all of their time. A node with a job that may run
// for ever is not among them.
func ends(jobs []slurm.Job) map[string]time.Time {
	out := map[string]time.Time{}
	for i := range jobs {
		j := &jobs[i]
		if j.Nodes == "" || j.States.Has(slurm.JobPending) || j.States.JobEnded() && !j.States.Has(slurm.JobCompleting) {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue
		}
		_, limited := j.TimeLimit.Get()
		for _, name := range names {
			end, known := out[name]
			switch {
			case !limited || j.EndTime.IsZero() || known && end.IsZero():
				out[name] = time.Time{}
			case j.EndTime.After(end):
				out[name] = j.EndTime
			}
		}
	}
	return out
}

// usable tells whether Slurm may start jobs on a node, now or when others end.
func usable(n *slurm.Node) bool {
	return n.States.HasAny(slurm.NodeIdle, slurm.NodeMixed, slurm.NodeAllocated) &&
		!n.States.HasAny(slurm.NodeDown, slurm.NodeDrain, slurm.NodeFail, slurm.NodeNotResponding, slurm.NodeExternal, "MAINTENANCE", "INVALID_REG", "POWERING_DOWN")
}

func busy(n *slurm.Node) bool {
	return n.States.HasAny(slurm.NodeMixed, slurm.NodeAllocated, slurm.NodeCompleting)
}

// addSet makes bins of a set's workers.
func (p *planner) addSet(i int) {
	s, t := &p.Sets[i], &p.sets[i]
	t.idle = map[string]bool{}
	t.own = &class{set: i, partitions: s.Partitions, features: s.Shape.Features, shape: s.Shape}
	p.classes = append(p.classes, t.own)
	leaving := 0
	for _, w := range s.Workers {
		if w.Leaving {
			leaving++
		}
	}
	// A worker that is drained to go only goes while there are more than wanted.
	leaving = max(0, min(leaving, len(s.Workers)-int(s.Replicas)))
	coming := max(0, int(s.Replicas)-len(s.Workers)+leaving)
	t.have = int32(len(s.Workers) - leaving + coming)
	for _, w := range s.Workers {
		since := w.Since
		switch {
		case w.Node == nil && p.Now.Sub(since) >= max(registerWithin, s.IdleTime):
			t.stuck++
		case w.Node == nil:
			if p.Now.Sub(since) < registerWithin {
				coming++
			}
			if p.Now.Sub(since) >= s.IdleTime {
				t.nameless++
			}
		case !usable(w.Node) || w.Leaving:
		default:
			p.addNode(i, w.Node)
			if busy(w.Node) {
				continue
			}
			for _, at := range []time.Time{w.Node.LastBusy, w.Node.SlurmdStartTime} {
				if at.After(since) {
					since = at
				}
			}
			if p.Now.Sub(since) >= s.IdleTime {
				t.idle[w.Node.Name] = true
			} else {
				t.resting++
			}
		}
	}
	if coming > 0 {
		t.own.bins = append(t.own.bins, &bin{left: s.Shape.stock(), nodes: coming, idle: true})
	}
	t.own.spare = max(0, int(s.Max-t.have))
}

// addNode puts a registered node into the bin of those like it.
func (p *planner) addNode(set int, n *slurm.Node) {
	shape := ShapeOf(*n)
	c := p.classOf(set, n, shape)
	idle := !busy(n)
	left := free(*n, shape)
	if idle {
		for _, b := range c.bins {
			if b.idle && b.names != nil && b.left.cpus == left.cpus && b.left.memory == left.memory {
				b.nodes++
				b.names = append(b.names, n.Name)
				return
			}
		}
	}
	b := &bin{left: left, nodes: 1, names: []string{n.Name}, idle: idle}
	if end := p.ends[n.Name]; !idle && !end.IsZero() && !end.After(p.Now.Add(soon)) {
		b.soon, c.soon = true, true
	}
	switch {
	case left.cpus > 0:
		c.bins = append(c.bins, b)
	case b.soon:
		c.full = append(c.full, b)
	}
}

func (p *planner) classOf(set int, n *slurm.Node, shape Shape) *class {
	for _, c := range p.classes {
		if c.set == set && c.shape.Threads == shape.Threads && c.shape.CPUs == shape.CPUs && c.shape.Memory == shape.Memory &&
			slices.Equal(c.features, n.Features) && slices.Equal(c.partitions, n.Partitions) && slices.EqualFunc(c.shape.GRES, shape.GRES, sameGRES) {
			return c
		}
	}
	c := &class{set: set, partitions: n.Partitions, features: n.Features, shape: shape}
	p.classes = append(p.classes, c)
	return c
}

// reserve keeps the nodes that waiting jobs ask for by name from going.
func (p *planner) reserve() {
	lists := map[string]bool{}
	for i := range p.Jobs {
		if j := &p.Jobs[i]; j.Asked.RequiredNodes != "" && j.States.Has(slurm.JobPending) {
			lists[j.Asked.RequiredNodes] = true
		}
	}
	for list := range lists {
		names, err := hostlist.Expand(list)
		if err != nil {
			continue
		}
		for i := range p.sets {
			for _, name := range names {
				delete(p.sets[i].idle, name)
			}
		}
	}
}

// placeAll places a job, or the tasks of an array, one after the other until one finds no place.
func (p *planner) placeAll(w waiting) {
	m := p.match(p.request(w.job))
	for left := w.count; left > 0; {
		choices, why := p.place(m)
		if why != nil {
			p.report(m, w.job, left, why)
			return
		}
		n := p.commit(m, choices, left)
		left -= n
		p.count(n)
	}
}

// count adds up what was used for a number of jobs.
func (p *planner) count(jobs int) {
	for set, n := range p.used.added {
		p.sets[set].added += int32(n)
		p.sets[set].served += jobs
	}
	for set := range p.used.coming {
		if _, also := p.used.added[set]; !also {
			p.sets[set].starting += jobs
		}
	}
	clear(p.used.added)
	clear(p.used.coming)
}

// placeTogether places all components of a heterogeneous job or none.
func (p *planner) placeTogether(parts []waiting) {
	undo := p.snapshot()
	for _, w := range parts {
		m := p.match(p.request(w.job))
		known := m.failed
		choices, why := p.place(m)
		if why != nil {
			undo()
			clear(p.used.added)
			clear(p.used.coming)
			m.failed = known // there is more room again
			p.report(m, w.job, 1, why)
			return
		}
		p.commit(m, choices, 1)
	}
	p.count(1)
}

func (p *planner) snapshot() (undo func()) {
	before := make([]class, len(p.classes))
	copied := func(bins []*bin) (out []*bin) {
		for _, b := range bins {
			kept := *b
			out = append(out, &kept)
		}
		return out
	}
	for i, c := range p.classes {
		before[i] = *c
		before[i].bins, before[i].full = copied(c.bins), copied(c.full)
	}
	return func() {
		for i, c := range p.classes {
			*c = before[i]
		}
	}
}

// untouched counts the workers of a set that have been idle for long and that no job is planned for.
func (p *planner) untouched(i int) int {
	t, n := &p.sets[i], 0
	coming := 0
	for _, c := range p.classes {
		if c.set != i {
			continue
		}
		for _, b := range c.bins {
			if !b.idle {
				continue
			}
			if b.names == nil {
				coming += b.nodes
			}
			for _, name := range b.names {
				if t.idle[name] {
					n++
				}
			}
		}
	}
	n += min(t.nameless, coming)
	if t.added == 0 && t.starting == 0 && t.unmet.jobs == 0 {
		n += t.stuck
	}
	return n
}

// block notes a job that waits for something else than workers.
func (p *planner) block(j *slurm.Job, why string) {
	partitions := strings.Split(j.Partition, ",")
	for i := range p.Sets {
		if overlap(p.Sets[i].Partitions, partitions) {
			t := p.sets[i].blocked[why]
			t.add(j.ID, 1)
			p.sets[i].blocked[why] = t
		}
	}
}

func (p *planner) report(m *matched, j *slurm.Job, jobs int, why *verdict) {
	for _, i := range m.sets {
		t := &p.sets[i]
		if why.never == "" {
			t.unmet.add(j.ID, jobs)
			continue
		}
		n := t.never[why.never]
		n.add(j.ID, jobs)
		t.never[why.never] = n
	}
}

func first(of map[string]tallied) (what string, t tallied) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if v := of[key]; t.jobs == 0 || v.jobs > t.jobs {
			what, t = key, v
		}
	}
	return what, t
}
