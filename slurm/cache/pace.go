package cache

import (
	"context"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// maxPause bounds how far failures slow polling down.
const maxPause = 30 * time.Second

// slowed returns the pause after some failures in a row.
func slowed(pause time.Duration, failures int) time.Duration {
	for range failures {
		pause = min(2*pause, max(pause, maxPause))
	}
	return pause
}

// pollJobs polls again and again. poll returns how long the list of states took.
func (c *Cache) pollJobs(ctx context.Context, poll func(context.Context) (time.Duration, error)) {
	failures := 0
	for ctx.Err() == nil {
		start := c.beginPoll()
		took, err := poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			took = 0 // it was no answer, and failures have a pause of their own
			c.report(ctx, err)
		} else {
			if failures > 0 {
				poke(c.recovered)
			}
			failures = 0
		}
		end := c.options.Clock.Now()
		for {
			pause := start.Add(slowed(c.jobPeriod(), failures)).Sub(c.options.Clock.Now())
			pause = max(pause, end.Add(c.rest(took)).Sub(c.options.Clock.Now()))
			if pause <= 0 {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-c.options.Clock.After(pause):
			case <-c.wake: // the period may have become shorter
			}
		}
	}
}

// rest returns the least time between the end of a poll and the next, so that the price of knowing which jobs changed doesn't
// grow with their number: a server is left alone nine times as long as the list of states took. Where that is more than
// the slow period, four times are enough: thousands of jobs are read every few seconds then, and not every minute.
func (c *Cache) rest(took time.Duration) time.Duration {
	return max(c.options.Fast/4, min(9*took, max(c.options.Slow, 4*took)))
}

func (c *Cache) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.options.OnError(err)
	}
}

func (c *Cache) jobPeriod() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.pollNow:
		return 0
	case c.awaiting > 0 || c.backlog:
		return c.options.Fast
	case c.idle():
		return c.options.Idle
	}
	return c.options.Slow
}

// idle tells whether no job waits or runs, and none has changed for a while. c.mu is held.
func (c *Cache) idle() bool {
	for _, word := range []string{slurm.JobPending, slurm.JobRunning, slurm.JobSuspended, slurm.JobCompleting, slurm.JobConfiguring} {
		if len(c.jobsBy.state[word]) > 0 {
			return false
		}
	}
	return c.options.Clock.Now().Sub(c.changedAt) >= quietAfter
}

// beginPoll notes and returns when a poll of jobs begins.
func (c *Cache) beginPoll() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollNow = false
	return c.options.Clock.Now()
}

// chore is something to do now and then beside the polling of jobs.
type chore struct {
	every    time.Duration
	due      time.Time
	failures int

	// do tells whether what it asked Slurm for counts against the load of an idle cluster.
	do func(context.Context) (bool, error)
}

// doChores does one chore after the other, the longest due first, and no two
// within a slow period once each was done, but for reading details: that bounds the load.
func (c *Cache) doChores(ctx context.Context) {
	start := c.options.Clock.Now()
	nodes, controller := &nodePoller{Cache: c}, &controllerWatch{Cache: c}
	// That slurmctld was started shows in its nodes, but for a cluster that has none.
	diag := &chore{every: 3 * max(c.options.Slow, c.options.Nodes), due: start, do: controller.look}
	chores := []*chore{
		{every: c.options.Nodes, due: start, do: func(ctx context.Context) (bool, error) {
			changed, err := nodes.poll(ctx)
			if changed {
				diag.due = c.options.Clock.Now() // a start of slurmctld changes all nodes
			}
			return true, err
		}},
		diag,
		{every: 6 * c.options.Nodes, due: start.Add(6 * c.options.Nodes), do: nodes.check},
		{every: c.options.Slow, due: start.Add(c.options.Slow), do: c.rereadDetails},
		{every: 5 * c.options.Slow, due: start.Add(5 * c.options.Slow), do: c.rereadRunning},
	}
	gap := min(c.options.Slow, c.options.Nodes)
	free := start
	for first := 2; ctx.Err() == nil; first-- {
		next := chores[0]
		for _, x := range chores {
			if x.due.Before(next.due) {
				next = x
			}
		}
		if first <= 0 && !c.waitUntil(ctx, next.due, free, chores) {
			continue
		}
		began := c.options.Clock.Now()
		asked, err := next.do(ctx)
		now := c.options.Clock.Now()
		if err == nil {
			next.failures = 0
			next.due = now.Add(max(next.every, 4*now.Sub(began)))
		} else {
			next.failures++
			next.due = now.Add(slowed(next.every, next.failures))
		}
		c.report(ctx, err)
		if asked {
			free = now.Add(gap)
		}
	}
}

// waitUntil waits for the later of two times, and returns false when what is
// due has to be looked at again. The first chore reads the nodes.
func (c *Cache) waitUntil(ctx context.Context, due, free time.Time, chores []*chore) bool {
	now := c.options.Clock.Now()
	pause := max(due.Sub(now), free.Sub(now))
	if pause <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.options.Clock.After(pause):
		return true
	case <-c.wakeNodes:
		chores[0].due = now
		return false
	case <-c.recovered:
		for _, x := range chores {
			if x.failures > 0 {
				x.due, x.failures = c.options.Clock.Now(), 0
			}
		}
		return false
	}
}
