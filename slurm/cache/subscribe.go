package cache

import (
	"sync"

	"github.com/slinky-hpc/slinky/slurm"
)

// Event is a change. Exactly one of Job and Node is set.
type Event struct {
	Job  *JobChange
	Node *NodeChange
}

// JobChange is what changed of a job. Old is nil for a new one, New for one that
// Slurm has no record of any more. Another job under a used id is first a gone job, then a new one.
type JobChange struct{ Old, New *slurm.Job }

// NodeChange is what changed of a node. Old is nil for a new one, New for a deleted one.
type NodeChange struct{ Old, New *slurm.Node }

// Subscribe calls handle with each event, one after the other, in order and on a
// goroutine of its own, beginning with an event for every job and node that is
// there now. The cache already shows an event's New when handle gets it. Several
// changes of one object that handle is too slow for become one. The objects are
// the handler's own. stop ends it; it may be called by handle, and doesn't wait for handle.
func (c *Cache) Subscribe(handle func(Event)) (stop func()) {
	s := &subscriber{pending: map[eventKey]int{}, ready: make(chan struct{}, 1), done: make(chan struct{})}
	c.mu.Lock()
	for _, n := range c.nodes {
		s.add(nodeEvent(nil, &n.record))
	}
	for _, j := range c.jobs {
		s.add(jobEvent(nil, &j.record))
	}
	c.subscribers[s] = struct{}{}
	c.mu.Unlock()
	go s.run(handle)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		delete(c.subscribers, s)
		c.mu.Unlock()
		close(s.done)
	})
}

// publish queues an event for all subscribers. c.mu is held.
func (c *Cache) publish(e Event) {
	for s := range c.subscribers {
		s.add(e)
	}
}

type eventKey struct {
	node  string
	job   uint32
	sluid string
}

func jobEvent(old, new *slurm.Job) Event   { return Event{Job: &JobChange{Old: old, New: new}} }
func nodeEvent(old, new *slurm.Node) Event { return Event{Node: &NodeChange{Old: old, New: new}} }
func jobKey(j *slurm.Job) eventKey         { return eventKey{job: j.ID, sluid: j.SLUID} }
func (c *JobChange) isNothing() bool       { return c.Old == nil && c.New == nil }
func (c *NodeChange) isNothing() bool      { return c.Old == nil && c.New == nil }
func cloneOf[T interface{ Clone() T }](p *T) *T {
	if p == nil {
		return nil
	}
	v := (*p).Clone()
	return &v
}

func (e Event) key() eventKey {
	switch {
	case e.Node != nil && e.Node.New != nil:
		return eventKey{node: e.Node.New.Name}
	case e.Node != nil:
		return eventKey{node: e.Node.Old.Name}
	case e.Job.New != nil:
		return jobKey(e.Job.New)
	}
	return jobKey(e.Job.Old)
}

// subscriber queues events without blocking whoever publishes.
type subscriber struct {
	ready, done chan struct{}

	mu    sync.Mutex
	queue []Event
	// pending maps an object to its event in queue.
	pending map[eventKey]int
}

// add queues an event, or makes it one with the object's waiting event. Records
// in the cache are replaced, never changed, so they may be cloned later.
func (s *subscriber) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := e.key()
	if i, ok := s.pending[key]; ok {
		switch {
		case e.Job != nil:
			s.queue[i].Job = &JobChange{Old: s.queue[i].Job.Old, New: e.Job.New}
		default:
			s.queue[i].Node = &NodeChange{Old: s.queue[i].Node.Old, New: e.Node.New}
		}
		return
	}
	s.pending[key] = len(s.queue)
	s.queue = append(s.queue, e)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	s.queue = nil
	clear(s.pending)
	return queue
}

func (s *subscriber) run(handle func(Event)) {
	for {
		select {
		case <-s.done:
			return
		case <-s.ready:
		}
		for _, e := range s.take() {
			select {
			case <-s.done:
				return
			default:
			}
			switch {
			case e.Job != nil && !e.Job.isNothing():
				handle(jobEvent(cloneOf(e.Job.Old), cloneOf(e.Job.New)))
			case e.Node != nil && !e.Node.isNothing():
				handle(nodeEvent(cloneOf(e.Node.Old), cloneOf(e.Node.New)))
			}
		}
	}
}
