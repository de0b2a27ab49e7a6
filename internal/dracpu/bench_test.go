package dracpu

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// benchDriver is the driver of a machine with 384 CPUs, on a real disk.
func benchDriver(b *testing.B) (*node, *plugin) {
	l := newLedger(b.TempDir(), b.TempDir(), "", numa(384, ""), 0)
	s, m := newState(), newMetrics(l)
	s.set(func(c *conditions) { c.connected, c.synchronized = true, true })
	p := &plugin{log: logr.Discard(), ledger: l, state: s, metric: m, threads: true,
		views: newViews(b.TempDir(), fstest.MapFS{}), view: viewExclusive, kick: make(chan struct{}, 1), saveSoon: make(chan struct{}, 1)}
	return &node{log: logr.Discard(), ledger: l, state: s, metric: m, changed: func() {}}, p
}

// Prepare and unprepare, with 40 claims there: the checkpoint and the CDI file are on the disk when the answer comes.
func BenchmarkPrepare(b *testing.B) {
	n, _ := benchDriver(b)
	for i := range 40 {
		if _, err := n.ledger.prepare(on(fmt.Sprint("held-", i), i%2, 4, "")); err != nil {
			b.Fatal(err)
		}
	}
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := n.prepare(on("a", 0, 8, "")); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
		if err := n.ledger.unprepare("a"); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*50/100].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// The hook of an exclusive container among 1,000 shared ones, which all must shrink.
func BenchmarkCreateAmong1000(b *testing.B) {
	n, p := benchDriver(b)
	for i := range 1000 {
		id := fmt.Sprint("s", i)
		n.ledger.containers[id] = &container{id: id, stored: true, started: true}
	}
	if _, err := n.ledger.prepare(on("a", 0, 8, "")); err != nil {
		b.Fatal(err)
	}
	c := ctr("e", "p", "DRA_CPUSET_a=0-7")
	for b.Loop() {
		b.StopTimer()
		for _, c := range n.ledger.containers {
			c.applied = set("0-383")
		}
		b.StartTimer()
		if _, u, err := p.CreateContainer(b.Context(), pod("p"), c); err != nil || len(u) != 1000 {
			b.Fatal(len(u), err)
		}
	}
}

// The runtime tells of 2,000 pods, 100 of them with a claim.
func BenchmarkSynchronize2000(b *testing.B) {
	n, p := benchDriver(b)
	var pods []*api.PodSandbox
	var all []*api.Container
	for i := range 2000 {
		uid, env := fmt.Sprint("p", i), []string{"PATH=/bin", "HOME=/root"}
		if i < 100 {
			claim := fmt.Sprint("c", i)
			c, err := n.ledger.prepare(reservedFor(on(claim, i%2, 1, ""), types.UID(uid)))
			if err != nil {
				b.Fatal(err)
			}
			env = append(env, "DRA_CPUSET_"+claim+"="+c.cpus().String())
		}
		c := ctr("c-"+uid, uid, env...)
		c.State = api.ContainerState_CONTAINER_RUNNING
		pods, all = append(pods, pod(uid)), append(all, c)
	}
	for b.Loop() {
		u, err := p.Synchronize(b.Context(), pods, all)
		if err != nil || len(u) != 2000 {
			b.Fatal(len(u), err)
		}
	}
}
