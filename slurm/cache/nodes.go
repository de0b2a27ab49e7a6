package cache

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

type node struct {
	record   slurm.Node // replaced, never changed
	sequence uint64
}

// deltaNodes is a client that can tell cheaply that no node changed.
type deltaNodes interface {
	// NodesSince returns nil nodes where none changed.
	NodesSince(ctx context.Context, since time.Time) ([]slurm.Node, time.Time, error)
}

// nodePoller is used by one goroutine.
type nodePoller struct {
	*Cache
	since   time.Time
	checked string // the node that was checked last
}

// poll reads the nodes if any changed, and tells whether one did.
func (p *nodePoller) poll(ctx context.Context) (changed bool, err error) {
	start, sequence := p.options.Clock.Now(), p.nextSequence()
	nodes, err := p.list(ctx)
	if err != nil {
		return false, err
	}
	if nodes != nil {
		missing := p.update(nodes, sequence)
		if err := p.confirmGone(ctx, missing); err != nil {
			p.since = time.Time{} // read the whole list again
			p.report(ctx, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodesRead, p.nodesSynced = start, true
	for name, at := range p.deleted {
		if at < sequence {
			delete(p.deleted, name) // no list that was asked for earlier is under way
		}
	}
	return nodes != nil, nil
}

func (p *nodePoller) list(ctx context.Context) ([]slurm.Node, error) {
	delta, ok := p.client.(deltaNodes)
	if !ok {
		nodes, err := p.client.Nodes(ctx)
		if nodes == nil && err == nil {
			nodes = []slurm.Node{}
		}
		return nodes, err
	}
	nodes, since, err := delta.NodesSince(ctx, p.since)
	if err == nil {
		p.since = since
	}
	return nodes, err
}

// check is the chore that looks for a known node, each time another, that is
// unknown to Slurm, though Slurm said that nothing changed: it says so too after
// its last node was deleted.
func (p *nodePoller) check(ctx context.Context) (bool, error) {
	if _, ok := p.client.(deltaNodes); !ok {
		return false, nil
	}
	p.mu.RLock()
	var first, next string
	for name := range p.nodes {
		if first == "" || name < first {
			first = name
		}
		if name > p.checked && (next == "" || name < next) {
			next = name
		}
	}
	p.mu.RUnlock()
	if p.checked = cmp.Or(next, first); p.checked == "" {
		return false, nil
	}
	there, err := p.RefreshNode(ctx, p.checked)
	if err == nil && !there {
		p.since = time.Time{}
		_, err = p.poll(ctx)
	}
	return true, err
}

// update takes over a list and returns the names that it lacks.
func (c *Cache) update(nodes []slurm.Node, sequence uint64) (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		listed[n.Name] = true
		c.setNode(n, sequence)
	}
	for name := range c.nodes {
		if !listed[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// setNode takes over one record. c.mu is held.
func (c *Cache) setNode(n slurm.Node, sequence uint64) {
	old, known := c.nodes[n.Name]
	if known && old.sequence > sequence || c.deleted[n.Name] > sequence {
		return
	}
	delete(c.deleted, n.Name)
	now := &node{record: n, sequence: sequence}
	c.nodes[n.Name] = now
	c.nodesBy.update(n.Name, old, now)
	switch {
	case !known:
		c.publish(nodeEvent(nil, &now.record))
	case !sameNode(old.record, n):
		c.publish(nodeEvent(&old.record, &now.record))
	}
}

// sameNode compares all but the free memory, which never stands still.
func sameNode(a, b slurm.Node) bool {
	a.FreeMemory, b.FreeMemory = slurm.Number{}, slurm.Number{}
	return reflect.DeepEqual(a, b)
}

// confirmGone removes the nodes that Slurm says it doesn't know.
func (c *Cache) confirmGone(ctx context.Context, names []string) error {
	return c.each(len(names), func(i int) error {
		_, err := c.RefreshNode(ctx, names[i])
		return err
	})
}

// RefreshNode reads a node from Slurm now, so that a reader sees the effect of
// its own write. It returns false, and no error, if Slurm doesn't know the node.
func (c *Cache) RefreshNode(ctx context.Context, name string) (bool, error) {
	sequence := c.nextSequence()
	n, err := c.client.Node(ctx, name)
	if err != nil && !errors.Is(err, slurm.ErrNotFound) {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if old, known := c.nodes[name]; known {
			// Of a single node Slurm gives what was allocated at the last list.
			n.AllocCPUs, n.AllocMemory = old.record.AllocCPUs, old.record.AllocMemory
		}
		c.setNode(n, sequence)
		return true, nil
	}
	if old, known := c.nodes[name]; known && old.sequence <= sequence {
		delete(c.nodes, name)
		c.nodesBy.update(name, old, nil)
		c.deleted[name] = sequence
		c.publish(nodeEvent(&old.record, nil))
	}
	return false, nil
}
