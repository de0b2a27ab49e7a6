package observe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
)

// fakeSlurm answers or doesn't.
type fakeSlurm struct {
	slurm.Client
	mu    sync.Mutex
	err   error
	nodes []slurm.Node
}

func (f *fakeSlurm) answer(err error, nodes ...slurm.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.nodes = err, nodes
}

func (f *fakeSlurm) Jobs(context.Context) ([]slurm.Job, error) { return nil, nil }

func (f *fakeSlurm) JobStates(context.Context) ([]slurm.JobState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, f.err
}

func (f *fakeSlurm) Nodes(context.Context) ([]slurm.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes, f.err
}

func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSlurm{}
		fake.answer(nil, slurm.Node{Name: "cpu-0"})
		connected, changes := 0, 0
		c := NewClusters(func(url string, key []byte) (slurm.Client, error) {
			connected++
			return fake, nil
		}, func(types.NamespacedName) { changes++ })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		defer func() { stop(); <-ended; synctest.Wait() }()
		synctest.Wait()
		name := types.NamespacedName{Namespace: "slurm", Name: "slurm"}
		const maxAge = 20 * time.Second
		use := func(key string, since time.Time) {
			t.Helper()
			if err := c.Use(name, "http://rest", []byte(key), since); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}

		if v := c.View(name, maxAge); v.Known || !strings.Contains(v.Why, "no RestApi") {
			t.Errorf("before Use: %+v", v)
		}
		use("key", time.Time{})
		if v := c.View(name, maxAge); !v.Known || v.Nodes["cpu-0"].Name == "" || changes != 1 {
			t.Errorf("after Use: %+v, %d changes", v, changes)
		}
		use("key", time.Time{})
		if connected != 1 {
			t.Errorf("connected %d times", connected)
		}

		fake.answer(errors.New("no route"))
		<-time.After(maxAge) // in synctest's own time
		<-time.After(maxAge) // in synctest's own time
		if v := c.View(name, maxAge); v.Known || !strings.Contains(v.Why, "no route") || len(v.Nodes) != 0 {
			t.Errorf("while Slurm is away: %+v", v)
		}
		fake.answer(nil, slurm.Node{Name: "cpu-0"})
		use("key", time.Now())
		if v := c.View(name, maxAge); !v.Known {
			t.Errorf("as soon as slurmrestd is back: %+v", v)
		}
		use("other key", time.Time{})
		if connected != 3 {
			t.Errorf("connected %d times", connected)
		}
		c.Drop(name)
		if v := c.View(name, maxAge); v.Known {
			t.Errorf("after Drop: %+v", v)
		}
	})
}

// closing counts the clients whose connections are given up.
type closing struct {
	*fakeSlurm
	closed *int
}

func (c closing) Close() { *c.closed++ }

// S004: a cluster that is made again under its name gets a new client each time, and nothing is left of the old one.
func TestS004NothingIsLeftOfAnOldCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, opened, closed := &fakeSlurm{}, []string{}, 0
		fake.answer(nil, slurm.Node{Name: "cpu-0"})
		c := NewClusters(func(url string, key []byte) (slurm.Client, error) {
			opened = append(opened, url+" "+string(key))
			return closing{fake, &closed}, nil
		}, func(types.NamespacedName) {})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		defer func() { stop(); <-ended }()
		name := types.NamespacedName{Namespace: "slurm", Name: "slurm"}
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 3 {
			url, key := fmt.Sprintf("http://rest-%d", i), fmt.Sprintf("key-%d", i)
			if err := c.Use(name, url, []byte(key), time.Time{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if v := c.View(name, time.Minute); !v.Known || opened[len(opened)-1] != url+" "+key {
				t.Errorf("round %d: %+v, opened %v", i, v, opened)
			}
			c.Drop(name)
			synctest.Wait()
			if n := runtime.NumGoroutine(); n != before || closed != i+1 {
				t.Errorf("round %d: %d goroutines are left, %d clients closed", i, n-before, closed)
			}
		}
	})
}
