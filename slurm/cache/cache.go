// Package cache keeps a live view of one Slurm cluster in memory. One poller
// asks slurmrestd, at a pace that follows need, and any number of readers and
// subscribers use what it finds, so that the load on Slurm doesn't grow with them.
//
// It polls the cheap list of job states and reads in full only what changed.
// What Slurm didn't say is never taken for gone: a failed answer changes
// nothing, and a job or node that is missing from a list is removed only after
// Slurm said of that one that it doesn't exist.
package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Clock is the time that a Cache lives by.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Options of a Cache; the zero value is good.
type Options struct {
	// Fast is the period of polling jobs while Await interest is registered, 100 ms by default.
	Fast time.Duration
	// Slow is the period otherwise, 2 s by default.
	Slow time.Duration
	// Nodes is the period of polling nodes, 5 s by default.
	Nodes time.Duration
	// Concurrency is how many single objects are read at once, 4 by default.
	Concurrency int
	// Clock is the real one by default.
	Clock Clock
	// OnError hears of failed polls; nil for nobody.
	OnError func(error)
}

func (o Options) withDefaults() Options {
	if o.Fast <= 0 {
		o.Fast = 100 * time.Millisecond
	}
	if o.Slow <= 0 {
		o.Slow = 2 * time.Second
	}
	if o.Nodes <= 0 {
		o.Nodes = 5 * time.Second
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	return o
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Cache is the view of one cluster. It is safe for concurrent use. No lock is
// held over a call to Slurm or to a subscriber.
type Cache struct {
	client  slurm.Client
	options Options
	wake    chan struct{}

	mu     sync.RWMutex
	jobs   map[uint32]*job
	groups map[uint32]*group
	nodes  map[string]*node
	// deleted has the nodes found gone, so that a list that was asked for before doesn't bring them back.
	deleted  map[string]uint64
	awaiting int
	// sequence numbers reads: what an earlier read found never replaces what a later one did.
	sequence    uint64
	generation  uint64
	jobsRead    time.Time
	nodesRead   time.Time
	jobsSynced  bool
	nodesSynced bool
	subscribers map[*subscriber]struct{}
}

// New returns a cache that is empty until Run.
func New(client slurm.Client, o Options) *Cache {
	return &Cache{
		client:      client,
		options:     o.withDefaults(),
		wake:        make(chan struct{}, 1),
		jobs:        map[uint32]*job{},
		groups:      map[uint32]*group{},
		nodes:       map[string]*node{},
		deleted:     map[string]uint64{},
		subscribers: map[*subscriber]struct{}{},
	}
}

// Run polls until ctx ends. Call it once.
func (c *Cache) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { c.loop(ctx, c.jobPeriod, c.wake, (&jobPoller{Cache: c}).poll) })
	loops.Go(func() {
		c.loop(ctx, func() time.Duration { return c.options.Nodes }, nil, (&nodePoller{Cache: c}).poll)
	})
	loops.Wait()
}

// maxPause bounds how far failures slow polling down.
const maxPause = 30 * time.Second

// loop polls again and again. It leaves a slow server at least four times as
// much time as a poll took, and a failing one longer with each failure.
func (c *Cache) loop(ctx context.Context, period func() time.Duration, wake <-chan struct{}, poll func(context.Context) error) {
	failures := 0
	for ctx.Err() == nil {
		start := c.options.Clock.Now()
		err := poll(ctx)
		if ctx.Err() != nil {
			return
		}
		took := c.options.Clock.Now().Sub(start)
		if err != nil {
			failures++
			c.report(ctx, err)
		} else {
			failures = 0
		}
		for waited := time.Duration(0); ; {
			pause := period()
			for range failures {
				pause = min(2*pause, max(pause, maxPause))
			}
			pause = max(pause, 4*took) - waited
			if pause <= 0 {
				break
			}
			before := c.options.Clock.Now()
			select {
			case <-ctx.Done():
				return
			case <-c.options.Clock.After(pause):
			case <-wake: // the period may have become shorter
			}
			waited += c.options.Clock.Now().Sub(before)
		}
	}
}

func (c *Cache) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.options.OnError(err)
	}
}

func (c *Cache) jobPeriod() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.awaiting > 0 {
		return c.options.Fast
	}
	return c.options.Slow
}

// Await registers interest in a change that is about to come, such as a job's
// start: polling is fast until the returned function is called.
func (c *Cache) Await() (release func()) {
	c.mu.Lock()
	c.awaiting++
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.awaiting--
	})
}

func (c *Cache) nextSequence() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	return c.sequence
}

// Job returns the job's record. A task of a job array has an id of its own once it has started.
func (c *Cache) Job(id uint32) (slurm.Job, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	j, ok := c.jobs[id]
	if !ok {
		return slurm.Job{}, false
	}
	return j.record.Clone(), true
}

// Jobs returns all jobs, by id.
func (c *Cache) Jobs() []slurm.Job {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]slurm.Job, 0, len(c.jobs))
	for _, j := range c.jobs {
		out = append(out, j.record.Clone())
	}
	slices.SortFunc(out, func(a, b slurm.Job) int { return int(int64(a.ID) - int64(b.ID)) })
	return out
}

// Allocation returns what an external job was granted. It is there from the
// moment that the job is seen running until the job is gone.
func (c *Cache) Allocation(id uint32) (slurm.Allocation, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	j, ok := c.jobs[id]
	if !ok || j.allocation == nil {
		return slurm.Allocation{}, false
	}
	return j.allocation.Clone(), true
}

// Node returns the node's record.
func (c *Cache) Node(name string) (slurm.Node, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n, ok := c.nodes[name]
	if !ok {
		return slurm.Node{}, false
	}
	return n.record.Clone(), true
}

// Nodes returns all nodes, by name.
func (c *Cache) Nodes() []slurm.Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]slurm.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		out = append(out, n.record.Clone())
	}
	slices.SortFunc(out, func(a, b slurm.Node) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

// Synced tells whether all jobs and nodes have been read at least once.
func (c *Cache) Synced() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.jobsSynced && c.nodesSynced
}

// Age returns for how long the view may be out of date: the time since the
// older of the last good polls of jobs and nodes began. It is negative before there was one of each.
func (c *Cache) Age() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.jobsRead.IsZero() || c.nodesRead.IsZero() {
		return -1
	}
	oldest := c.jobsRead
	if c.nodesRead.Before(oldest) {
		oldest = c.nodesRead
	}
	return c.options.Clock.Now().Sub(oldest)
}

// Generation counts the good polls of jobs. A reader that wants a poll which
// began after some moment waits for it to grow by two.
func (c *Cache) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}
