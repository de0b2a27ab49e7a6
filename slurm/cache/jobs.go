package cache

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

const (
	// A list of all jobs costs slurmrestd about 0.7 ms and much memory for each
	// job, a single one 2 ms. So the whole list is read when a third has changed,
	// unless it is so long that slurmrestd would need gigabytes.
	wholeListFrom, wholeListUpTo = 100, 20_000

	// The list of states doesn't tell why a job waits. Waiting jobs are read
	// again now and then, and running ones too, as far as the load allows.
	rereadWaiting, rereadRunning = 15 * time.Second, 5 * time.Minute
	// watchRunning is the same for those that run, where they are watched.
	watchRunning = 5 * time.Second
	// quietAfter is when a cluster on which nothing changed counts as idle.
	quietAfter = time.Minute

	// readPerPoll and confirmPerPoll bound the single reads in one poll, for jobs
	// that changed and for jobs that left the list, so that no poll takes for ever.
	readPerPoll, confirmPerPoll = 5000, 1000
)

// jobPoller is used by one goroutine.
type jobPoller struct {
	*Cache
	listed []listed // by id; kept for its memory
}

// poll reads the list of states, then what changed, and returns how long the list took.
func (p *jobPoller) poll(ctx context.Context) (took time.Duration, err error) {
	start, sequence := p.options.Clock.Now(), p.nextSequence()
	list, err := p.client.JobStates(ctx)
	took = p.options.Clock.Now().Sub(start)
	if err != nil {
		p.distrustLater()
		return took, err
	}
	p.listed = summarize(list, p.listed[:0])
	p.distrustIfDue()
	changed, missing := p.compare(sequence)
	if missing, err = p.forgotten(ctx, missing, sequence); err != nil {
		p.done(start, false, true, err)
		p.report(ctx, err)
		return took, nil
	}
	complete := len(changed) <= readPerPoll && len(missing) <= confirmPerPoll
	if len(changed) > readPerPoll {
		changed = changed[:readPerPoll]
	}
	if err = p.readChanged(ctx, changed); err == nil {
		err = p.each(min(len(missing), confirmPerPoll), func(i int) error { return p.readGroup(ctx, missing[i], "") })
	}
	p.done(start, complete, len(changed)+len(missing) > 0, err)
	p.report(ctx, err)
	return took, nil
}

// forgotten drops the jobs among the missing that had ended, and returns the others:
// slurmctld forgets them after MinJobAge, as many as it had started. One of them is
// asked for, and stands for all: if Slurm has it still, the list wasn't whole.
func (p *jobPoller) forgotten(ctx context.Context, missing []uint32, asked uint64) (others []uint32, err error) {
	var ended []uint32
	p.mu.RLock()
	for _, id := range missing {
		switch g, ok := p.groups[id]; {
		case !ok:
		case g.unfinished:
			others = append(others, id)
		default:
			ended = append(ended, id)
		}
	}
	p.mu.RUnlock()
	if len(ended) < 2 {
		return missing, nil
	}
	newest := ended[len(ended)-1]
	if err := p.readGroup(ctx, newest, ""); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.groups[newest]; there {
		return missing, nil
	}
	for _, id := range ended {
		p.setGroup(id, nil, "", asked)
	}
	return others, nil
}

// done notes the end of a poll that began at start.
func (c *Cache) done(start time.Time, complete, changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobsRead = start // one job that can't be read doesn't make the rest old
	c.backlog = !complete && err == nil
	if changed {
		c.changedAt = start
	}
	if complete && err == nil {
		c.jobsSynced = true
		c.generation++
	}
}

// listed is what the list of states has under one id, as a text to compare.
type listed struct {
	id     uint32
	states string
}

// summarize appends the entries of a list to out, one for each id and in their order.
func summarize(list []slurm.JobState, out []listed) []listed {
	order := func(a, b slurm.JobState) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Part, b.Part)) }
	if !slices.IsSortedFunc(list, order) {
		slices.SortFunc(list, order)
	}
	for rest := list; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].ID == rest[0].ID {
			n++
		}
		out = append(out, listed{rest[0].ID, textOf(rest[:n])})
		rest = rest[n:]
	}
	return out
}

// textOf is never empty. It needs no memory for the entry that most jobs have:
// one without parts and with one state.
func textOf(entries []slurm.JobState) string {
	if len(entries) == 1 && entries[0].Part == "" && len(entries[0].States) > 0 {
		return entries[0].States.String()
	}
	var b strings.Builder
	for _, s := range entries {
		b.WriteString(s.Part + ":" + s.States.String() + " ")
	}
	return b.String()
}

// statesOf returns what was listed for a job, "" for nothing.
func (p *jobPoller) statesOf(id uint32) string {
	i, ok := slices.BinarySearchFunc(p.listed, id, func(l listed, id uint32) int { return cmp.Compare(l.id, id) })
	if !ok {
		return ""
	}
	return p.listed[i].states
}

// compare returns what the list has of jobs that changed, those that were only
// to be read again at the end, and the jobs that it lacks. A job that was read
// after the list was asked for is newer than it, and the next list tells.
func (p *jobPoller) compare(asked uint64) (changed []listed, missing []uint32) {
	var again []listed
	p.mu.RLock()
	defer p.mu.RUnlock()
	known := 0
	for _, l := range p.listed {
		g, ok := p.groups[l.id]
		if ok {
			known++
		}
		switch {
		case ok && g.states == l.states: // most jobs, most of the time
		case ok && g.states != "" && p.readSince(g, asked):
		case !ok || g.states != "" && g.states != l.states:
			changed = append(changed, l)
		case g.states != l.states:
			again = append(again, l)
		}
	}
	if known < len(p.groups) {
		for id, g := range p.groups {
			if p.statesOf(id) == "" && !p.readSince(g, asked) {
				missing = append(missing, id)
			}
		}
		slices.Sort(missing)
	}
	return append(changed, again...), missing
}

// readSince tells whether one of a group's records was asked for after a sequence. c.mu is held.
func (c *Cache) readSince(g *group, sequence uint64) bool {
	return slices.ContainsFunc(g.members, func(id uint32) bool { return c.jobs[id].sequence > sequence })
}

func (p *jobPoller) readChanged(ctx context.Context, changed []listed) error {
	if n := len(changed); n < wholeListFrom || 3*n < len(p.listed) || len(p.listed) > wholeListUpTo {
		return p.each(n, func(i int) error { return p.readGroup(ctx, changed[i].id, changed[i].states) })
	}
	sequence := p.nextSequence()
	all, err := p.client.Jobs(ctx)
	if err != nil {
		return err
	}
	records := map[uint32][]slurm.Job{}
	for _, j := range all {
		id := groupOf(j)
		records[id] = append(records[id], j)
	}
	return p.each(len(changed), func(i int) error {
		l := changed[i]
		if len(records[l.id]) == 0 {
			return p.readGroup(ctx, l.id, l.states)
		}
		return p.takeOver(ctx, l.id, records[l.id], l.states, sequence, p.client.Allocation)
	})
}

// rereadDetails is the chore that reads again some of the jobs whose details are
// the oldest: of those that wait, and if the cluster is in use of those that run.
// It reads one after the other, since those that changed matter more.
func (c *Cache) rereadDetails(ctx context.Context) (bool, error) {
	now := c.options.Clock.Now()
	pick := func(g *group) bool { return g.waiting || now.Sub(c.changedAt) < quietAfter }
	if c.options.Watch != nil {
		if !c.anyWaiting() {
			return false, nil
		}
		pick = func(g *group) bool { return g.watched && !g.waiting }
	}
	var failure error
	for _, id := range c.old(now, max(0, c.options.Details), pick) {
		if err := c.readGroup(ctx, id, c.knownStates(id)); err != nil {
			failure = err
			c.postpone(id) // one that can't be read hides no other
		}
		if c.options.Clock.Now().Sub(now) > c.options.Slow {
			break // other chores wait
		}
	}
	return false, failure
}

func (c *Cache) anyWaiting() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, g := range c.unfinished {
		if g.waiting {
			return true
		}
	}
	return false
}

// postpone makes a job wait for its turn to be read again as if it had been read.
func (c *Cache) postpone(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g, ok := c.groups[id]; ok {
		g.read = c.options.Clock.Now()
	}
}

// rereadRunning is the chore that reads one job again on an idle cluster.
func (c *Cache) rereadRunning(ctx context.Context) (bool, error) {
	if c.options.Details < 0 || c.options.Watch != nil {
		return false, nil
	}
	due := c.old(c.options.Clock.Now(), 1, func(g *group) bool { return !g.waiting })
	if len(due) == 0 {
		return false, nil
	}
	err := c.readGroup(ctx, due[0], c.knownStates(due[0]))
	if err != nil {
		c.postpone(due[0])
	}
	return true, err
}

func (c *Cache) knownStates(id uint32) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if g, ok := c.groups[id]; ok {
		return g.states
	}
	return ""
}

// old returns the unfinished jobs that are due to be read again, of those that pick names: the oldest first, and no more than most.
func (c *Cache) old(now time.Time, most int, pick func(*group) bool) []uint32 {
	type reading struct {
		id uint32
		at time.Time
	}
	order := func(a, b reading) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) }
	oldest := make([]reading, 0, most)
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id, g := range c.unfinished {
		if now.Sub(g.read) < g.rereadAfter() || !pick(g) {
			continue
		}
		// With thousands due and a few wanted, most are younger than the last that is kept.
		r := reading{id, g.read}
		at, _ := slices.BinarySearchFunc(oldest, r, order)
		if at == most {
			continue
		}
		oldest = slices.Insert(oldest[:min(len(oldest), most-1)], at, r)
	}
	out := make([]uint32, len(oldest))
	for i, r := range oldest {
		out[i] = r.id
	}
	return out
}

// rereadAfter is how old the details of an unfinished job may become.
func (g *group) rereadAfter() time.Duration {
	switch {
	case g.waiting:
		return rereadWaiting
	case g.watched:
		return watchRunning
	}
	return rereadRunning
}
