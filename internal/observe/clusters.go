// Package observe reads the facts that plans need.
package observe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
)

// Connect makes a client of the slurmrestd at url, with tokens signed by key.
type Connect func(url string, key []byte) (slurm.Client, error)

// Clusters keeps a live view of each Slurm cluster: one poller for all who read.
type Clusters struct {
	connect Connect
	// changed hears which cluster's nodes have changed. It must not block.
	changed func(types.NamespacedName)

	mu   sync.Mutex
	ctx  context.Context //nolint:containedctx // pollers live as long as the program, not as one call
	open map[types.NamespacedName]*cluster
}

type cluster struct {
	url    string
	key    [sha256.Size]byte
	since  time.Time
	client slurm.Client
	cache  *cache.Cache
	stop   context.CancelFunc
	// failure is why the last poll failed, nil after a good one.
	mu      sync.Mutex
	failure error
}

// NewClusters returns Clusters without any cluster. changed is called for each change of a node.
func NewClusters(connect Connect, changed func(types.NamespacedName)) *Clusters {
	return &Clusters{connect: connect, changed: changed, open: map[types.NamespacedName]*cluster{}}
}

// Start lets the pollers live until ctx ends. It is a manager's Runnable.
func (c *Clusters) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	for name, k := range c.open {
		c.run(name, k)
	}
	c.mu.Unlock()
	<-ctx.Done()
	return nil
}

// Use makes a cluster known, or follows a change of its address or key. since is when its
// slurmrestd came up, zero where that is not known: a poller that has lost its patience with the
// one before begins anew.
func (c *Clusters) Use(name types.NamespacedName, url string, key []byte, since time.Time) error {
	sum := sha256.Sum256(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.open[name]; k != nil {
		if k.url == url && k.key == sum && (since.IsZero() || k.since.Equal(since)) {
			return nil
		}
		c.close(name)
	}
	client, err := c.connect(url, key)
	if err != nil {
		return fmt.Errorf("connect to slurmrestd of cluster %s: %w", name, err)
	}
	k := &cluster{url: url, key: sum, since: since, client: client}
	k.cache = cache.New(client, cache.Options{OnError: k.failed})
	c.open[name] = k
	if c.ctx != nil {
		c.run(name, k)
	}
	return nil
}

// Drop forgets a cluster that is gone.
func (c *Clusters) Drop(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(name)
}

func (c *Clusters) close(name types.NamespacedName) {
	k := c.open[name]
	if k == nil {
		return
	}
	delete(c.open, name)
	if k.stop != nil {
		k.stop()
	}
	if client, ok := k.client.(interface{ Close() }); ok {
		client.Close() // connections that wait for a next call, which won't come
	}
}

// run starts a cluster's poller. c.mu is held.
func (c *Clusters) run(name types.NamespacedName, k *cluster) {
	ctx, stop := context.WithCancel(c.ctx)
	k.stop = stop
	go k.cache.Run(ctx)
	unsubscribe := k.cache.Subscribe(func(e cache.Event) {
		if e.Node != nil {
			c.changed(name)
		}
	})
	context.AfterFunc(ctx, unsubscribe)
}

func (k *cluster) failed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = err
}

func (k *cluster) why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure != nil {
		return k.failure.Error()
	}
	return "it has not answered yet"
}

// View is a cluster as it was last seen.
type View struct {
	// Known tells whether the view is recent enough to act on; Why says what is missing.
	Known bool
	Why   string
	Nodes map[string]slurm.Node
	// Slurm writes to the cluster; nil where no connection is known.
	Slurm slurm.Nodes
	// Refresh reads one node again. It returns false if Slurm doesn't know the node.
	Refresh func(ctx context.Context, node string) (slurm.Node, bool, error)
	// JobsOn returns the jobs that hold a node.
	JobsOn func(node string) []slurm.Job
	// OldestJob is when the job that has run for longest began, zero where none runs.
	OldestJob time.Time
	// Reservations reads and writes the cluster's reservations; nil where they can't be.
	Reservations slurm.Reservations
}

// View returns what is known about a cluster, no older than maxAge.
func (c *Clusters) View(name types.NamespacedName, maxAge time.Duration) View {
	c.mu.Lock()
	k := c.open[name]
	c.mu.Unlock()
	if k == nil {
		return View{Why: "no RestApi of this cluster is known, or its JWT key is missing"}
	}
	v := View{Slurm: k.client, Refresh: k.refresh, JobsOn: k.cache.JobsOnNode}
	if r, ok := k.client.(slurm.Reservations); ok {
		v.Reservations = r
	}
	if err := k.cache.Fresh(maxAge); err != nil {
		v.Why = "slurmrestd at " + k.url + " gives no current answer: " + k.why()
		return v
	}
	v.Known = true
	for _, state := range []string{slurm.JobRunning, slurm.JobCompleting, slurm.JobSuspended} {
		for _, j := range k.cache.JobsInState(state) {
			if v.OldestJob.IsZero() || j.StartTime.Before(v.OldestJob) {
				v.OldestJob = j.StartTime
			}
		}
	}
	v.Nodes = map[string]slurm.Node{}
	for _, n := range k.cache.Nodes() {
		v.Nodes[n.Name] = n
	}
	return v
}

func (k *cluster) refresh(ctx context.Context, node string) (slurm.Node, bool, error) {
	known, err := k.cache.RefreshNode(ctx, node)
	if err != nil || !known {
		return slurm.Node{}, false, err
	}
	n, known := k.cache.Node(node)
	return n, known, nil
}
