package cache

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// job is one record. It is replaced, never changed, so readers need the lock only to find it.
type job struct {
	record     slurm.Job
	allocation *slurm.Allocation
	key        string
	watched    bool
	sequence   uint64
	group      uint32
}

// group is what the list of states gives under one id: a job, a job array with
// all its tasks, or a heterogeneous job with its components. The records of
// tasks that started and of components have ids of their own.
type group struct {
	// states is how the list gave it when the records were last read; "" to read them again.
	states  string
	members []uint32
	read    time.Time
	// unfinished, waiting and watched tell whether any member is.
	unfinished, waiting, watched bool
}

// groupOf returns the id that the list of states has a record under.
func groupOf(j slurm.Job) uint32 {
	if array, ok := j.ArrayJobID.Get(); ok && array != 0 {
		return uint32(array)
	}
	if leader, ok := j.HetJobID.Get(); ok && leader != 0 {
		return uint32(leader)
	}
	return j.ID
}

// jobRecords is a client that reads all records of a job array at once.
type jobRecords interface {
	JobRecords(ctx context.Context, id uint32) ([]slurm.Job, error)
}

// records reads what Slurm has under an id; nothing, and no error, if it knows no such job.
func (c *Cache) records(ctx context.Context, id uint32) (records []slurm.Job, err error) {
	if r, ok := c.client.(jobRecords); ok {
		records, err = r.JobRecords(ctx, id)
	} else {
		var j slurm.Job
		j, err = c.client.Job(ctx, id)
		records = []slurm.Job{j}
	}
	switch {
	case errors.Is(err, slurm.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return records, nil
}

// readGroup reads a job and takes it over; Slurm's word that it doesn't exist removes it.
func (c *Cache) readGroup(ctx context.Context, id uint32, states string) error {
	sequence := c.nextSequence()
	records, err := c.records(ctx, id)
	if err != nil {
		return err
	}
	return c.takeOver(ctx, id, slices.DeleteFunc(records, func(j slurm.Job) bool { return groupOf(j) != id }), states, sequence, c.client.Allocation)
}

// RefreshJob reads a job from Slurm now, so that a reader sees the effect of its
// own write. It returns false, and no error, if Slurm doesn't know the job.
func (c *Cache) RefreshJob(ctx context.Context, id uint32) (bool, error) {
	return c.refreshJob(ctx, id, c.client.Allocation)
}

// RefreshStarted is RefreshJob for an external job that slurmctld has just started: what it
// was allocated is asked for at the same time.
func (c *Cache) RefreshStarted(ctx context.Context, id uint32) (bool, error) {
	var early slurm.Allocation
	var earlyErr error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		early, earlyErr = c.client.Allocation(ctx, id)
	}()
	defer func() { <-asked }()
	return c.refreshJob(ctx, id, func(ctx context.Context, of uint32) (slurm.Allocation, error) {
		<-asked
		if of != id || earlyErr != nil {
			return c.client.Allocation(ctx, of)
		}
		return early, nil
	})
}

// allocate asks what a job was allocated.
type allocate func(ctx context.Context, id uint32) (slurm.Allocation, error)

func (c *Cache) refreshJob(ctx context.Context, id uint32, allocation allocate) (bool, error) {
	c.mu.RLock()
	of := id
	if j, ok := c.jobs[id]; ok {
		of = j.group
	}
	c.mu.RUnlock()
	sequence := c.nextSequence()
	records, err := c.records(ctx, of)
	if err != nil {
		return false, err
	}
	var mine []slurm.Job
	found, other := false, uint32(0)
	for _, j := range records {
		found = found || j.ID == id
		if group := groupOf(j); group == of {
			mine = append(mine, j)
		} else {
			other = group
		}
	}
	if err := c.takeOver(ctx, of, mine, listedAs(mine), sequence, allocation); err != nil {
		return false, err
	}
	if other != 0 && len(mine) == 0 { // a task or component that wasn't known as one
		if err := c.readGroup(ctx, other, ""); err != nil {
			return false, err
		}
	}
	_, there := c.Job(id)
	return found && there, nil
}

// listedAs returns how the list of states gives a group with these records: "" where
// that can't be told, and the next poll then reads the group once more.
func listedAs(records []slurm.Job) string {
	if len(records) != 1 || records[0].ArrayTasks != "" || groupOf(records[0]) != records[0].ID || len(records[0].States) == 0 {
		return ""
	}
	if array, ok := records[0].ArrayJobID.Get(); ok && array != 0 {
		return ""
	}
	if leader, ok := records[0].HetJobID.Get(); ok && leader != 0 {
		return ""
	}
	return records[0].States.String()
}

// takeOver makes records the content of a group, with the allocations of running
// external jobs, so that whoever sees such a job run also sees where.
func (c *Cache) takeOver(ctx context.Context, id uint32, records []slurm.Job, states string, sequence uint64, allocation allocate) error {
	read := make([]*job, len(records))
	for i, j := range records {
		read[i] = c.newJob(j, id, sequence)
		if c.options.WithoutAllocations || !j.External() || !j.States.Has(slurm.JobRunning) {
			continue
		}
		if read[i].allocation = c.knownAllocation(j); read[i].allocation != nil {
			continue
		}
		a, err := allocation(ctx, j.ID)
		switch {
		case err == nil:
			read[i].allocation = &a
		case errors.Is(err, slurm.ErrNotFound) || errors.Is(err, slurm.ErrInvalid):
			states = "" // it ended just now: the next poll reads it again
		default:
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setGroup(id, read, states, sequence)
	return nil
}

func (c *Cache) newJob(record slurm.Job, group uint32, sequence uint64) *job {
	theirs := record.Clone()
	return &job{
		record: record, sequence: sequence, group: group,
		key: c.options.Key(theirs), watched: c.options.Watch != nil && c.options.Watch(theirs),
	}
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
func (c *Cache) setGroup(id uint32, read []*job, states string, sequence uint64) {
	var before []uint32
	if g, known := c.groups[id]; known {
		before = g.members
	}
	g := &group{members: make([]uint32, 0, len(read)), read: c.options.Clock.Now()}
	for _, now := range read {
		member := now.record.ID
		if old, had := c.jobs[member]; had && old.sequence > sequence {
			states = "" // something newer is there already
		} else {
			c.setJob(member, now)
		}
		if c.jobs[member].group == id {
			g.add(member, c.jobs[member])
		}
	}
	for _, member := range before {
		old, there := c.jobs[member]
		switch {
		case !there || slices.Contains(g.members, member):
		case old.sequence > sequence:
			states = ""
			g.add(member, old)
		default:
			c.removeJob(member)
		}
	}
	if len(g.members) == 0 {
		c.dropGroup(id)
		return
	}
	g.states = states
	c.words.text(&g.states)
	c.putGroup(id, g)
}

// putGroup is the only way for a group into the view. c.mu is held.
func (c *Cache) putGroup(id uint32, g *group) {
	c.groups[id] = g
	if g.unfinished {
		c.unfinished[id] = g
	} else {
		delete(c.unfinished, id)
	}
}

func (c *Cache) dropGroup(id uint32) {
	delete(c.groups, id)
	delete(c.unfinished, id)
}

func (g *group) add(member uint32, j *job) {
	if slices.Contains(g.members, member) {
		return // a list that names a job twice
	}
	g.members = append(g.members, member)
	g.unfinished = g.unfinished || !j.record.States.JobEnded()
	g.waiting = g.waiting || j.record.States.Has(slurm.JobPending)
	g.watched = g.watched || j.watched
}

// setJob replaces a record. c.mu is held.
func (c *Cache) setJob(id uint32, now *job) {
	c.words.job(&now.record)
	old := c.jobs[id]
	if old != nil && now.allocation == nil && old.record.SLUID == now.record.SLUID {
		now.allocation = old.allocation // an ended job keeps what it had
	}
	c.jobs[id] = now
	c.jobsBy.update(id, old, now)
	if old != nil && old.group != now.group {
		c.leave(old.group, id)
	}
	switch {
	case old == nil:
		c.publish(jobEvent(nil, &now.record))
	case old.record.SLUID != now.record.SLUID:
		c.publish(jobEvent(&old.record, nil))
		c.publish(jobEvent(nil, &now.record))
	case !reflect.DeepEqual(&old.record, &now.record):
		c.publish(jobEvent(&old.record, &now.record))
	}
}

// removeJob removes a record that Slurm doesn't have. c.mu is held.
func (c *Cache) removeJob(id uint32) {
	old := c.jobs[id]
	delete(c.jobs, id)
	c.jobsBy.update(id, old, nil)
	c.publish(jobEvent(&old.record, nil))
}

// leave takes a record out of the group that it was in: its id was given to another job. c.mu is held.
func (c *Cache) leave(id, member uint32) {
	g, ok := c.groups[id]
	if !ok {
		return
	}
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(m uint32) bool { return m == member })
	g.states = ""
	if len(g.members) == 0 {
		c.dropGroup(id)
	}
}
