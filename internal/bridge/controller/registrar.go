package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/slurm"
)

const (
	// slurmNodeExists is Slurm's error for a node that is there already.
	slurmNodeExists = 2168
	// registerMost bounds one call: slurmctld keeps its locks while it makes the nodes, a tenth of a second for so many.
	registerMost = 500
	// showsWithin is when a node that was registered is in the view, which reads the nodes every few seconds.
	showsWithin = 15 * time.Second
)

// registrar registers nodes in Slurm, those that are alike with one call: slurmctld makes 500
// nodes in the time of some 20 single ones.
type registrar struct {
	slurm Slurm
	// made is told of each node whose registration has ended.
	made func(ctx context.Context, name string)
	// look makes the view read the nodes.
	look func()
	wake chan struct{}

	mu    sync.Mutex
	nodes map[string]*registration
	queue []*registration
}

// registration is one node's way into Slurm, until the view shows it.
type registration struct {
	node slurm.NodeCreate
	// gone marks one that is under way.
	gone bool
	// ended is when it was over, and err how.
	ended time.Time
	err   error
}

func newRegistrar(s Slurm, made func(context.Context, string), look func()) *registrar {
	return &registrar{slurm: s, made: made, look: look, wake: make(chan struct{}, 1), nodes: map[string]*registration{}}
}

// register asks for a node, or tells how far that is: done when Slurm has it.
func (r *registrar) register(n slurm.NodeCreate, now time.Time) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.nodes[n.Name]
	switch {
	case have == nil:
	case have.ended.IsZero():
		if !have.gone {
			have.node = n
		}
		return false, nil
	case have.err != nil:
		delete(r.nodes, n.Name)
		return false, have.err
	case now.Sub(have.ended) < showsWithin:
		return true, nil
	}
	x := &registration{node: n}
	r.nodes[n.Name] = x
	r.queue = append(r.queue, x)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return false, nil
}

// forget drops what is known of a node that the view shows, or that nobody wants any more.
func (r *registrar) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.nodes[name]; x != nil && !x.gone {
		delete(r.nodes, name)
	}
}

// run registers what is asked for until the context ends.
func (r *registrar) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		for batch := r.next(); len(batch) > 0; batch = r.next() {
			r.create(ctx, batch)
		}
	}
}

// next takes the longest waiting registration and all that can go with it.
func (r *registrar) next() []*registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var batch, later []*registration
	for _, x := range r.queue {
		switch {
		case r.nodes[x.node.Name] != x: // forgotten meanwhile
		case len(batch) == 0,
			len(batch) < registerMost && batch[0].node.GRESConf == "" && x.node.Alike(batch[0].node):
			x.gone = true
			batch = append(batch, x)
		default:
			later = append(later, x)
		}
	}
	r.queue = later
	return batch
}

func (r *registrar) create(ctx context.Context, batch []*registration) {
	nodes := make([]slurm.NodeCreate, len(batch))
	for i, x := range batch {
		nodes[i] = x.node
	}
	log.FromContext(ctx).Info("Register nodes in Slurm", "count", len(nodes), "first", nodes[0].Name, "cpus", nodes[0].CPUs, "sockets", nodes[0].Sockets,
		"reservedCPUs", len(nodes[0].ReservedCPUs), "memoryMiB", nodes[0].RealMemory, "gres", nodes[0].GRES, "features", nodes[0].Features)
	err := r.slurm.CreateNodes(ctx, nodes)
	if len(batch) > 1 && err != nil && !errors.Is(err, slurm.ErrUnavailable) {
		// All or none: one of them is the reason, which mustn't hinder the others.
		for i, x := range batch {
			r.end(ctx, x, r.slurm.CreateNodes(ctx, nodes[i:i+1]))
		}
	} else {
		for _, x := range batch {
			r.end(ctx, x, err)
		}
	}
	r.look()
}

func (r *registrar) end(ctx context.Context, x *registration, err error) {
	var e *slurm.Error
	if errors.As(err, &e) && e.Code == slurmNodeExists {
		err = nil
	}
	r.mu.Lock()
	x.gone, x.ended, x.err = false, time.Now(), err
	r.mu.Unlock()
	r.made(ctx, x.node.Name)
}
