package dracpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
)

// benchDriver is the driver of a machine with 384 CPUs. Its checkpoint is on a real disk, and its CDI files are in memory, as those in /run.
func benchDriver(b *testing.B, boot string) (*node, *plugin) {
	cdi := fmt.Sprintf("/dev/shm/dra-cpu-bench-%d", os.Getpid())
	if err := os.MkdirAll(cdi, 0o755); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(cdi) })
	l := newLedger(b.TempDir(), cdi, boot, numa(384, ""), 0)
	s, m := newState(), newMetrics(l)
	s.set(func(c *conditions) { c.connected, c.synchronized = true, true })
	p := &plugin{log: logr.Discard(), ledger: l, state: s, metric: m, threads: true,
		views: newViews(b.TempDir(), fstest.MapFS{}), view: viewExclusive, kick: make(chan struct{}, 1), saveSoon: make(chan struct{}, 1)}
	return &node{log: logr.Discard(), ledger: l, state: s, metric: m, changed: func() {}}, p
}

// Prepare and unprepare, with 40 claims there: the checkpoint is written when the answer comes, and on the disk if the machine doesn't
// say which boot it is. The floor is what a program that only replaces a file by the checkpoint's bytes needs for it, in turns with it.
func BenchmarkPrepare(b *testing.B) {
	b.Run("boot known", func(b *testing.B) { benchPrepare(b, "this", atomicfile.Cached) })
	b.Run("boot unknown", func(b *testing.B) { benchPrepare(b, "", atomicfile.Flushed) })
}

func benchPrepare(b *testing.B, boot string, d atomicfile.Durability) {
	n, _ := benchDriver(b, boot)
	for i := range 40 {
		if _, err := prepareOne(n.ledger, on(fmt.Sprint("held-", i), i%2, 4, "")); err != nil {
			b.Fatal(err)
		}
	}
	bytes, err := os.ReadFile(n.ledger.checkpoint.path)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "floor")
	var times, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		if o := n.prepare(b.Context(), []*resourceapi.ResourceClaim{on("a", 0, 8, "")}); o[0].err != nil {
			b.Fatal(o[0].err)
		}
		times = append(times, time.Since(began))
		b.StopTimer()
		began = time.Now()
		if err := atomicfile.Replace(path, bytes, 0o600, d); err != nil {
			b.Fatal(err)
		}
		floor = append(floor, time.Since(began))
		if err := n.ledger.unprepare("a")["a"]; err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(times)
	slices.Sort(floor)
	for _, q := range []int{50, 99} {
		own, least := times[len(times)*q/100], floor[len(floor)*q/100]
		b.ReportMetric(float64(own.Microseconds())/1000, fmt.Sprintf("p%d-ms", q))
		b.ReportMetric(float64(least.Microseconds())/1000, fmt.Sprintf("p%d-floor-ms", q))
		b.ReportMetric(float64(own)/float64(least), fmt.Sprintf("p%d/floor", q))
	}
}

// The hook of an exclusive container among 1,000 shared ones, which all must shrink.
func BenchmarkCreateAmong1000(b *testing.B) {
	n, p := benchDriver(b, "this")
	for i := range 1000 {
		id := fmt.Sprint("s", i)
		n.ledger.containers[id] = &container{id: id, stored: true, started: true}
	}
	if _, err := prepareOne(n.ledger, on("a", 0, 8, "")); err != nil {
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
	n, p := benchDriver(b, "this")
	var pods []*api.PodSandbox
	var all []*api.Container
	for i := range 2000 {
		uid, env := fmt.Sprint("p", i), []string{"PATH=/bin", "HOME=/root"}
		if i < 100 {
			claim := fmt.Sprint("c", i)
			c, err := prepareOne(n.ledger, reservedFor(on(claim, i%2, 1, ""), types.UID(uid)))
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
