// Package slurmtest starts a real Slurm for a test: slurmctld and slurmrestd of
// Debian's Slurm 26.05, with slurmd, and with slurmdbd and its database, if
// wanted, each cluster in namespaces of its own and on free ports of 127.0.0.1. It
// takes about a second, or four with a database, once the root file system is in
// the user's cache, and needs root.
//
// Tests that use it skip unless SLINKY_TEST_SLURM=1; with it they never skip.
package slurmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Variable is the environment variable that allows tests to start a real Slurm.
const Variable = "SLINKY_TEST_SLURM"

// Options of a cluster. The zero value is a cluster without nodes.
type Options struct {
	// ClusterName is "test" by default.
	ClusterName string
	// Nodes is how many real slurmd to start, n1 and so on, in partition "real".
	Nodes int
	// ExternalNodes are created before Start returns. Those with the feature "ext" are in partition "ext".
	ExternalNodes []slurm.NodeCreate
	// SchedulerParameters replaces the ones that make scheduling quick.
	SchedulerParameters string
	// Config are more lines for slurm.conf.
	Config []string
	// GRESConf, where given, is the text of gres.conf.
	GRESConf string
	// Topology, where given, is the text of topology.yaml.
	Topology string
	// WithAccounting adds slurmdbd and its database, and enforces associations, limits and
	// QOS. root is the only user of the database. It takes some three seconds more.
	WithAccounting bool
}

const quickScheduling = "bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_continue"

// Cluster is a running Slurm.
type Cluster struct {
	// URL of slurmrestd over TCP, and Socket the path of its unix socket.
	URL, Socket string
	// ControllerPort is slurmctld's, which also serves /metrics and /readyz over HTTP.
	ControllerPort int
	// KeyFile holds the HS256 key that tokens are checked by; Key is its content.
	KeyFile string
	Key     []byte

	dir, root string
	init      *namespace
}

// ExternalNode returns an external node of two sockets with four cores of two
// threads, 64,000 MiB and four gpus of type h200, for partition "ext".
func ExternalNode(name string) slurm.NodeCreate {
	return slurm.NodeCreate{
		Name: name, Address: "127.0.0.1", External: true,
		CPUs: 16, Sockets: 2, CoresPerSocket: 4, ThreadsPerCore: 2, RealMemory: 64000,
		Features: []string{"ext"},
		GRES:     "gpu:h200:4", GRESConf: "count=4,name=gpu,type=h200,file=/dev/nvidia[0-3]",
	}
}

// Start starts a cluster and stops it when the test ends, without a trace.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skipf("needs root and a real Slurm: set %s=1 to run it", Variable)
	}
	if os.Geteuid() != 0 {
		t.Fatalf("%s=1 is set, but only root can start a Slurm cluster", Variable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	root, err := rootFS(ctx, contentFor(o.WithAccounting), t.Logf)
	if err != nil {
		t.Fatalf("root file system for Slurm: %v", err)
	}
	if o.ClusterName == "" {
		o.ClusterName = "test"
	}
	if o.SchedulerParameters == "" {
		o.SchedulerParameters = quickScheduling
	}
	c, err := start(ctx, t, root, o)
	if err != nil {
		t.Fatalf("start Slurm: %v", err)
	}
	client := c.Client(t, "root")
	for _, n := range o.ExternalNodes {
		if err := client.CreateNode(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// start tries again with other ports where one was taken between its choice and its use.
func start(ctx context.Context, t testing.TB, root string, o Options) (*Cluster, error) {
	var err error
	for range 3 {
		var c *Cluster
		if c, err = startOnce(ctx, t, root, o); err == nil || !portTaken(c) {
			return c, err
		}
	}
	return nil, err
}

func startOnce(ctx context.Context, t testing.TB, root string, o Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "slurmtest-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, root: root}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
		if c.init != nil {
			c.init.stop()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ports, err := freePorts(4 + o.Nodes)
	if err != nil {
		return c, err
	}
	c.ControllerPort = ports[0]
	c.URL = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.Socket = filepath.Join(dir, "run", "rest", "sock")
	c.KeyFile = filepath.Join(dir, "etc", "jwt_hs256.key")
	if c.Key, err = writeFiles(dir, o, ports); err != nil {
		return c, err
	}
	if c.init, err = newNamespace(root, dir); err != nil {
		return c, err
	}
	return c, c.ready(ctx, t)
}

// ready waits until slurmctld answers through slurmrestd.
func (c *Cluster) ready(ctx context.Context, t testing.TB) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := c.Client(t, "root")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pings, err := client.Ping(ctx)
		if err == nil && len(pings) > 0 && pings[0].Responding {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.init.ended:
			return fmt.Errorf("a daemon ended: %s", c.logs())
		case <-ctx.Done():
			return fmt.Errorf("no answer within a minute: %w; %s", err, c.logs())
		}
	}
}

// Client returns a client that acts as user, with tokens made from the cluster's key.
func (c *Cluster) Client(t testing.TB, user string) *rest.Client {
	t.Helper()
	client, err := rest.New(rest.Config{URL: c.URL, Tokens: c.Tokens(t, user), Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Tokens returns a source of tokens for user: root, slurm, alice or bob.
func (c *Cluster) Tokens(t testing.TB, user string) rest.TokenSource {
	t.Helper()
	tokens, err := rest.TokensFromKey(rest.KeyConfig{Key: c.Key, User: user})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
