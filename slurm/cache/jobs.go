package cache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// job is one record. record and allocation are replaced, never changed.
type job struct {
	record     slurm.Job
	allocation *slurm.Allocation
	sequence   uint64
	group      uint32
}

// group is what the list of states gives under one id: a job, or a job array
// with all its tasks, whose records have ids of their own once they started.
type group struct {
	// states is how the list gave it when the records were last read; "" to read them again.
	states  string
	members map[uint32]bool
	read    time.Time
}

const (
	// A list of all jobs costs slurmrestd about 0.7 ms and much memory for each
	// job, a single one 2 ms. So the whole list is read when a third has changed,
	// unless it is so long that slurmrestd would need gigabytes.
	wholeListFrom, wholeListUpTo = 100, 20_000

	// The list of states doesn't tell why a job waits. Waiting jobs are read
	// again now and then, and running ones too, since an id may have been given
	// to another job after a crash of slurmctld.
	rereadWaiting, rereadRunning = 15 * time.Second, 5 * time.Minute
	rereadPerPoll                = 32

	// confirmPerPoll bounds the single reads for jobs that left the list in one poll.
	confirmPerPoll = 1000
)

// controllerDiag is a client that can tell when slurmctld started.
type controllerDiag interface {
	Diag(ctx context.Context) (slurm.Diag, error)
}

type jobPoller struct {
	*Cache
	// suspect: slurmctld was away, so what is known of jobs may not hold.
	suspect bool
	diag    slurm.Diag
	diagAt  time.Time
}

// poll reads the list of states, then what changed.
func (p *jobPoller) poll(ctx context.Context) error {
	start := p.options.Clock.Now()
	restarted, err := p.restarted(ctx, start)
	p.suspect = p.suspect || restarted || err != nil
	if err != nil {
		return err
	}
	list, err := p.client.JobStates(ctx)
	if err != nil {
		p.suspect = true
		return err
	}
	states := groupStates(list)
	if p.suspect {
		p.distrust()
		p.suspect = false
	}
	changed, missing := p.compare(states)
	if err = p.readChanged(ctx, changed, states); err == nil {
		err = p.each(min(len(missing), confirmPerPoll), func(i int) error { return p.readGroup(ctx, missing[i], "") })
	}
	// One job that can't be read doesn't make the rest old.
	p.mu.Lock()
	p.jobsRead = start
	p.generation++
	p.jobsSynced = p.jobsSynced || err == nil
	p.mu.Unlock()
	if err == nil {
		err = p.reread(ctx, states)
	}
	p.report(ctx, err)
	return nil
}

// restarted tells whether slurmctld was started again since it was last asked,
// which it is once in a slow period. A quick restart fails no call, as
// slurmrestd waits for slurmctld to come back.
func (p *jobPoller) restarted(ctx context.Context, now time.Time) (bool, error) {
	client, ok := p.client.(controllerDiag)
	if !ok || !p.diagAt.IsZero() && now.Sub(p.diagAt) < p.options.Slow {
		return false, nil
	}
	diag, err := client.Diag(ctx)
	if err != nil {
		return false, err
	}
	if diag.Since.IsZero() {
		diag.Since = p.diag.Since // slurmctld's first second; the next answer tells
	}
	before, first := p.diag, p.diagAt.IsZero()
	p.diag, p.diagAt = diag, now
	return !first && (!before.Since.Equal(diag.Since) || diag.JobsSubmitted < before.JobsSubmitted), nil
}

// groupStates returns what the list says of each id, as a text to compare.
func groupStates(list []slurm.JobState) map[uint32]string {
	slices.SortStableFunc(list, func(a, b slurm.JobState) int { return cmp.Compare(a.Part, b.Part) })
	out := make(map[uint32]string, len(list))
	for _, s := range list {
		text := s.Part + ":" + s.States.String()
		if before, ok := out[s.ID]; ok {
			text = before + " " + text
		}
		out[s.ID] = text
	}
	return out
}

// distrust makes all unfinished jobs be read again: slurmctld was away, and may
// have lost the newest jobs and given their ids to others.
func (c *Cache) distrust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.groups {
		for id := range g.members {
			if !c.jobs[id].record.States.JobEnded() {
				g.states = ""
			}
		}
	}
}

func (c *Cache) compare(states map[uint32]string) (changed, missing []uint32) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id, s := range states {
		if g, known := c.groups[id]; !known || g.states != s {
			changed = append(changed, id)
		}
	}
	for id := range c.groups {
		if _, listed := states[id]; !listed {
			missing = append(missing, id)
		}
	}
	slices.Sort(changed)
	slices.Sort(missing)
	return changed, missing
}

func (p *jobPoller) readChanged(ctx context.Context, changed []uint32, states map[uint32]string) error {
	if n := len(changed); n < wholeListFrom || 3*n < len(states) || len(states) > wholeListUpTo {
		return p.each(n, func(i int) error { return p.readGroup(ctx, changed[i], states[changed[i]]) })
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
		id := changed[i]
		if len(records[id]) == 0 {
			return p.readGroup(ctx, id, states[id])
		}
		return p.takeOver(ctx, id, records[id], states[id], sequence)
	})
}

// groupOf returns the id that the list of states has a record under.
func groupOf(j slurm.Job) uint32 {
	if array, ok := j.ArrayJobID.Get(); ok {
		return uint32(array)
	}
	return j.ID
}

// jobRecords is a client that reads all records of a job array at once.
type jobRecords interface {
	JobRecords(ctx context.Context, id uint32) ([]slurm.Job, error)
}

// readGroup reads a job and takes it over; Slurm's word that it doesn't exist removes it.
func (c *Cache) readGroup(ctx context.Context, id uint32, states string) error {
	sequence := c.nextSequence()
	var records []slurm.Job
	var err error
	if r, ok := c.client.(jobRecords); ok {
		records, err = r.JobRecords(ctx, id)
	} else {
		var j slurm.Job
		j, err = c.client.Job(ctx, id)
		records = []slurm.Job{j}
	}
	if err != nil && !errors.Is(err, slurm.ErrNotFound) {
		return err
	}
	if err != nil {
		records = nil
	}
	return c.takeOver(ctx, id, slices.DeleteFunc(records, func(j slurm.Job) bool { return groupOf(j) != id }), states, sequence)
}

// RefreshJob reads a job from Slurm now, so that a reader sees the effect of its
// own write. It returns false, and no error, if Slurm doesn't know the job.
func (c *Cache) RefreshJob(ctx context.Context, id uint32) (bool, error) {
	c.mu.RLock()
	of := id
	if j, ok := c.jobs[id]; ok {
		of = j.group
	}
	c.mu.RUnlock()
	// No text for the states: the next poll compares anew, which costs one more read.
	if err := c.readGroup(ctx, of, ""); err != nil {
		return false, err
	}
	_, ok := c.Job(id)
	return ok, nil
}

// takeOver makes records the content of a group, with the allocations of running
// external jobs, so that whoever sees such a job run also sees where.
func (c *Cache) takeOver(ctx context.Context, id uint32, records []slurm.Job, states string, sequence uint64) error {
	allocations := map[uint32]*slurm.Allocation{}
	for _, j := range records {
		if !j.External() || !j.States.Has(slurm.JobRunning) {
			continue
		}
		if a := c.knownAllocation(j); a != nil {
			allocations[j.ID] = a
			continue
		}
		a, err := c.client.Allocation(ctx, j.ID)
		switch {
		case err == nil:
			allocations[j.ID] = &a
		case errors.Is(err, slurm.ErrNotFound) || errors.Is(err, slurm.ErrInvalid):
			states = "" // it ended just now: the next poll reads it again
		default:
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setGroup(id, records, allocations, states, sequence)
	return nil
}

// knownAllocation returns what is known of the same run of the same job.
func (c *Cache) knownAllocation(j slurm.Job) *slurm.Allocation {
	c.mu.RLock()
	defer c.mu.RUnlock()
	old, ok := c.jobs[j.ID]
	if ok && old.record.SLUID == j.SLUID && old.record.StartTime.Equal(j.StartTime) && old.record.Nodes == j.Nodes {
		return old.allocation
	}
	return nil
}

// setGroup takes over what one read found. c.mu is held.
func (c *Cache) setGroup(id uint32, records []slurm.Job, allocations map[uint32]*slurm.Allocation, states string, sequence uint64) {
	g, known := c.groups[id]
	if !known {
		g = &group{members: map[uint32]bool{}}
	}
	found := map[uint32]bool{}
	for _, j := range records {
		found[j.ID] = true
		old, had := c.jobs[j.ID]
		if had && old.sequence > sequence {
			states = "" // something newer is there already
			continue
		}
		allocation := allocations[j.ID]
		if had && allocation == nil && old.record.SLUID == j.SLUID {
			allocation = old.allocation // an ended job keeps what it had
		}
		c.jobs[j.ID] = &job{record: j, allocation: allocation, sequence: sequence, group: id}
		g.members[j.ID] = true
		c.publishJob(old, &j)
	}
	for member := range g.members {
		if old := c.jobs[member]; !found[member] && old.sequence <= sequence {
			delete(g.members, member)
			delete(c.jobs, member)
			c.publish(jobEvent(&old.record, nil))
		}
	}
	if len(g.members) == 0 {
		delete(c.groups, id)
		return
	}
	g.states, g.read = states, c.options.Clock.Now()
	c.groups[id] = g
}

func (c *Cache) publishJob(old *job, now *slurm.Job) {
	switch {
	case old == nil:
		c.publish(jobEvent(nil, now))
	case old.record.SLUID != now.SLUID:
		c.publish(jobEvent(&old.record, nil))
		c.publish(jobEvent(nil, now))
	case !reflect.DeepEqual(old.record, *now):
		c.publish(jobEvent(&old.record, now))
	}
}

// reread reads again some of the jobs whose details are the oldest.
func (p *jobPoller) reread(ctx context.Context, states map[uint32]string) error {
	now := p.options.Clock.Now()
	p.mu.RLock()
	due := map[uint32]time.Time{}
	for id, g := range p.groups {
		limit := rereadRunning
		if strings.Contains(states[id], slurm.JobPending) {
			limit = rereadWaiting
		}
		if states[id] == g.states && p.unfinished(g) && now.Sub(g.read) >= limit {
			due[id] = g.read
		}
	}
	p.mu.RUnlock()
	oldest := slices.SortedFunc(maps.Keys(due), func(a, b uint32) int {
		return cmp.Or(due[a].Compare(due[b]), cmp.Compare(a, b))
	})
	return p.each(min(len(oldest), rereadPerPoll), func(i int) error { return p.readGroup(ctx, oldest[i], states[oldest[i]]) })
}

// unfinished tells whether a job of the group has yet to end. c.mu is held.
func (c *Cache) unfinished(g *group) bool {
	for id := range g.members {
		if !c.jobs[id].record.States.JobEnded() {
			return true
		}
	}
	return false
}
