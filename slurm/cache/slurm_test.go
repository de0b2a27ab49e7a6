package cache_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// watch runs a cache of a real Slurm until the test ends. Events of jobs and of
// nodes come apart, as nothing orders the one against the other.
func watch(t *testing.T, client slurm.Client) (c *cache.Cache, jobs, nodes chan cache.Event) {
	t.Helper()
	c = cache.New(client, cache.Options{Nodes: 200 * time.Millisecond, OnError: func(err error) { t.Log(err) }})
	ctx, cancel := context.WithCancel(t.Context())
	jobs, nodes = make(chan cache.Event, 1000), make(chan cache.Event, 1000)
	stop := c.Subscribe(func(e cache.Event) {
		if e.Job != nil {
			jobs <- e
		} else {
			nodes <- e
		}
	})
	release := c.Await()
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { stop(); release(); cancel(); running.Wait() })
	return c, jobs, nodes
}

// next returns the first event that match accepts.
func next(t *testing.T, events <-chan cache.Event, what string, match func(cache.Event) bool) cache.Event {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case e := <-events:
			if match(e) {
				return e
			}
		case <-timeout:
			t.Fatalf("no event within 30 s: %s", what)
		}
	}
}

func jobIs(id uint32, state string) func(cache.Event) bool {
	return func(e cache.Event) bool {
		return e.Job != nil && e.Job.New != nil && e.Job.New.ID == id && e.Job.New.States.Has(state)
	}
}

func nodeIs(name string, states ...string) func(cache.Event) bool {
	return func(e cache.Event) bool {
		return e.Node != nil && e.Node.New != nil && e.Node.New.Name == name && e.Node.New.States.Has(states...)
	}
}

func request(cpus uint32) slurm.JobRequest {
	return slurm.JobRequest{Name: "j", Partition: "ext", External: true, CPUsPerTask: cpus, MemoryPerNode: slurm.NumberOf(1000), WorkingDirectory: "/tmp"}
}

func TestRealSlurm(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	client := cluster.Client(t, "root")
	c, jobs, nodes := watch(t, client)
	ctx := t.Context()
	next(t, nodes, "node x1 is there", nodeIs("x1", slurm.NodeIdle))

	id, err := client.Submit(ctx, request(4))
	if err != nil {
		t.Fatal(err)
	}
	e := next(t, jobs, "the job runs", jobIs(id, slurm.JobRunning))
	if a, ok := c.Allocation(id); !ok || len(a.Nodes) != 1 || len(a.Nodes[0].Cores) != 2 {
		t.Errorf("allocation %+v, %v, want two cores of one node", a, ok)
	}
	if j, ok := c.Job(id); !ok || j.SLUID != e.Job.New.SLUID || j.Nodes != "x1" {
		t.Errorf("job %+v, %v", j, ok)
	}
	next(t, nodes, "the node is in use", nodeIs("x1", slurm.NodeMixed))

	cluster.Run(t, "scancel", "--ctld", "1")
	next(t, jobs, "the job ended", jobIs(id, slurm.JobCancelled))

	array, err := strconv.ParseUint(cluster.Run(t, "sbatch", "--parsable", "-H", "--array=1-3", "-p", "ext", "--wrap", "true"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	next(t, jobs, "the job array waits", jobIs(uint32(array), slurm.JobPending))

	het, err := strconv.ParseUint(cluster.Run(t, "sh", "-c", "printf '#!/bin/sh\n#SBATCH -H -p ext -n1\n#SBATCH hetjob\n#SBATCH -H -p ext -n1\ntrue\n' | sbatch --parsable"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	second := next(t, jobs, "the second component of a heterogeneous job waits", func(e cache.Event) bool {
		return e.Job.New != nil && e.Job.New.HetJobID == slurm.NumberOf(het) && e.Job.New.ID != uint32(het)
	})
	if there, err := c.RefreshJob(ctx, second.Job.New.ID); !there || err != nil {
		t.Errorf("the second component, read again: %v, %v", there, err)
	}

	cluster.Run(t, "scontrol", "update", "nodename=x1", "state=drain", "reason=test")
	next(t, nodes, "the node drains", nodeIs("x1", slurm.NodeDrain))
	if n, _ := c.Node("x1"); n.Reason != "test" {
		t.Errorf("reason %q", n.Reason)
	}
	if err := client.DeleteNode(ctx, "x1"); err != nil {
		t.Fatal(err)
	}
	next(t, nodes, "the node is gone", func(e cache.Event) bool { return e.Node != nil && e.Node.New == nil })
}

// startedLongAgo waits until slurmctld's next start differs from this one: they are told apart by the second.
func startedLongAgo(t *testing.T, client *rest.Client) {
	t.Helper()
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		d, err := client.Diag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !d.Since.IsZero() && time.Since(d.Since) > time.Second {
			return
		}
	}
}

// TestCrash is about slurmctld's promise that ends with a crash: the newest jobs
// are lost, and their ids are used again.
func TestCrash(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{Config: []string{
		// In the file, so that the node itself survives.
		"NodeName=x1 NodeAddr=127.0.0.1 CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 Feature=ext State=EXTERNAL",
	}})
	client, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(t, "root"), Timeout: time.Second, ListTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, jobs, nodes := watch(t, client)
	next(t, nodes, "node x1 is there", nodeIs("x1", slurm.NodeIdle))
	startedLongAgo(t, client)
	// slurmctld saves its state now and then; here never, so that the job is lost for sure.
	cluster.Run(t, "chmod", "0500", "/cluster/ctld")
	id, err := client.AllocateNow(t.Context(), request(4))
	if err != nil {
		t.Fatal(err)
	}
	first := next(t, jobs, "the job runs", jobIs(id, slurm.JobRunning))
	cluster.Kill(t, "slurmctld")
	if _, ok := c.Job(id); !ok {
		t.Error("the job is gone as soon as slurmctld is")
	}
	cluster.Run(t, "chmod", "0700", "/cluster/ctld")
	cluster.Restart(t, "slurmctld")
	for deadline := time.Now().Add(30 * time.Second); ; {
		pings, err := client.Ping(t.Context())
		if err == nil && pings[0].Responding {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("slurmctld doesn't come back: %v, %v", pings, err)
		}
	}
	second, err := client.AllocateNow(t.Context(), request(2))
	if err != nil {
		t.Fatal(err)
	}
	if second != id {
		t.Fatalf("the new job has id %d, not the lost job's %d", second, id)
	}
	next(t, jobs, "the first job is gone", func(e cache.Event) bool {
		return e.Job != nil && e.Job.New == nil && e.Job.Old.SLUID == first.Job.New.SLUID
	})
	again := next(t, jobs, "the second job runs", jobIs(second, slurm.JobRunning))
	if again.Job.New.SLUID == first.Job.New.SLUID || again.Job.Old != nil {
		t.Errorf("the second job passes for the first: %+v", again.Job)
	}
	if a, ok := c.Allocation(second); !ok || len(a.Nodes[0].Cores) != 1 {
		t.Errorf("allocation %+v, %v, want that of the second job: one core", a, ok)
	}
}
