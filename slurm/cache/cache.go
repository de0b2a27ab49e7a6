package cache

import (
	"context"
	"fmt"
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
	// Idle is the period while no job is unfinished and nothing has changed for a minute, Slow by default.
	Idle time.Duration
	// Nodes is the period of polling nodes, 5 s by default.
	Nodes time.Duration
	// Concurrency is how many single objects are read at once, 4 by default.
	Concurrency int
	// Details is how many jobs at most are read again in a slow period for what the list of
	// states doesn't tell, 32 by default; negative for none.
	Details int
	// Watch makes these the running jobs that it is true for, and only while others wait that could
	// preempt them: Slurm's warning of a preemption is a detail, too. Without it they are those that
	// wait, and some that run. It must depend on its argument alone.
	Watch func(slurm.Job) bool
	// WithoutAllocations spares the calls that tell what running external jobs were granted.
	WithoutAllocations bool
	// Key returns what JobsWithKey finds a job by, such as the UID of the workload
	// that its comment names; "" for a job that has none. It must depend on its argument alone.
	Key func(slurm.Job) string
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
	if o.Idle <= 0 {
		o.Idle = o.Slow
	}
	if o.Details == 0 {
		o.Details = 32
	}
	if o.Nodes <= 0 {
		o.Nodes = 5 * time.Second
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	if o.Key == nil {
		o.Key = func(slurm.Job) string { return "" }
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
// held over a call to Slurm, to a subscriber or to Options.Key.
type Cache struct {
	client  slurm.Client
	options Options
	// wake ends the pause between two polls of jobs; recovered tells that Slurm answers again.
	wake, recovered chan struct{}
	// wakeNodes makes the nodes due to be read.
	wakeNodes chan struct{}

	mu     sync.RWMutex
	jobs   map[uint32]*job
	groups map[uint32]*group
	// unfinished are those of groups that are: on most clusters a few beside thousands that have ended.
	unfinished map[uint32]*group
	nodes      map[string]*node
	// deleted has the nodes found gone, so that a list that was asked for before doesn't bring them back.
	deleted  map[string]uint64
	jobsBy   jobIndexes
	nodesBy  nodeIndexes
	words    words
	awaiting int
	backlog  bool
	// pollNow is set until the next poll begins.
	pollNow   bool
	suspect   bool
	changedAt time.Time
	// sequence numbers reads: what an earlier read found never replaces what a later one did.
	sequence    uint64
	generation  uint64
	jobsRead    time.Time
	nodesRead   time.Time
	jobsSynced  bool
	nodesSynced bool
	subscribers map[*subscriber]struct{}
}

// New returns a cache that is empty until Run or Load.
func New(client slurm.Client, o Options) *Cache {
	c := &Cache{
		client:      client,
		options:     o.withDefaults(),
		wake:        make(chan struct{}, 1),
		recovered:   make(chan struct{}, 1),
		wakeNodes:   make(chan struct{}, 1),
		subscribers: map[*subscriber]struct{}{},
	}
	c.clear()
	return c
}

// clear empties the view. c.mu is held, or nobody else knows c.
func (c *Cache) clear() {
	c.jobs = map[uint32]*job{}
	c.groups, c.unfinished = map[uint32]*group{}, map[uint32]*group{}
	c.nodes = map[string]*node{}
	c.deleted = map[string]uint64{}
	c.jobsBy, c.nodesBy = newJobIndexes(), newNodeIndexes()
	c.words = newWords()
}

// Run polls until ctx ends. Call it once.
func (c *Cache) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { c.pollJobs(ctx, (&jobPoller{Cache: c}).poll) })
	loops.Go(func() { c.doChores(ctx) })
	loops.Wait()
}

// Await registers interest in a change that is about to come, such as a job's
// start: polling is fast until the returned function is called.
func (c *Cache) Await() (release func()) {
	c.mu.Lock()
	c.awaiting++
	c.mu.Unlock()
	poke(c.wake)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.awaiting--
	})
}

// Wake ends the idle period, with a poll at once, for a reader that knows of a job
// before the cache does. It doesn't wait for the poll, and does nothing on a cluster that is polled often anyway.
func (c *Cache) Wake() {
	c.mu.Lock()
	idle := c.idle()
	if idle {
		c.pollNow = true
		c.changedAt = c.options.Clock.Now()
	}
	c.mu.Unlock()
	if idle {
		poke(c.wake)
	}
}

// WakeNodes makes the cache read the nodes as soon as the load allows, for a reader that has changed many.
func (c *Cache) WakeNodes() { poke(c.wakeNodes) }

// poke leaves a message for whoever listens to ch, unless there is one already.
func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *Cache) nextSequence() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	return c.sequence
}

// Synced tells whether all jobs and nodes have been read from Slurm at least
// once. What Load brought doesn't count.
func (c *Cache) Synced() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.jobsSynced && c.nodesSynced
}

// Age returns for how long the view may be out of date: the time since the
// older of the last good polls of jobs and nodes began, be it in this process or
// in the one that saved the view. It is negative before there was one of each.
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
	return max(0, c.options.Clock.Now().Sub(oldest))
}

// Fresh returns nil if the view has been read whole and is no older than limit,
// and else an error of kind slurm.ErrStale that says what is missing.
func (c *Cache) Fresh(limit time.Duration) error {
	const op = "use the view of Slurm"
	switch age := c.Age(); {
	case !c.Synced() || age < 0:
		return &slurm.Error{Kind: slurm.ErrStale, Op: op, Text: "jobs and nodes have not been read whole yet"}
	case age > limit:
		return &slurm.Error{Kind: slurm.ErrStale, Op: op,
			Text: fmt.Sprintf("it is %s old, and may be %s", age.Round(time.Millisecond), limit)}
	}
	return nil
}

// Generation counts the polls of jobs after which nothing was left to read: not
// those in which a job that changed couldn't be read. A reader that wants such
// a poll which began after some moment waits for it to grow by two.
func (c *Cache) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}
