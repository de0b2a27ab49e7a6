package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/test/bench/measure"
)

// patience is how long a phase may take. It is no target: it ends a run that hangs.
const patience = 6 * time.Minute

// singles are how many single pods come at once.
var singles = []int{100, 500, 1000}

// TestBridgeTable measures the bridge and prints a table. It fails if something
// doesn't work, never for a time.
func TestBridgeTable(t *testing.T) {
	if os.Getenv(binaries) == "" {
		t.Skip("it takes minutes: run `make bench`")
	}
	log.SetLogger(logr.Discard()) // controller-runtime complains without one
	w := newWorld(t)
	t.Cleanup(func() { fmt.Printf("\n%s\n", w.table) })
	t.Run("stock scheduler", w.stockAlone)
	t.Run("bare Slurm", w.slurmAlone)
	t.Run("bridge", w.bridge)
}

// phase bounds a part of the run in time.
func (w *world) phase(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.live, patience, errors.New("it took longer than "+patience.String()))
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// oneByOne creates pods one after the other and returns their latencies.
func (w *world) oneByOne(t *testing.T, l measure.Load, count int) measure.Quantiles {
	t.Helper()
	ctx := w.phase(t)
	tracker := w.track(t, l)
	start := time.Now()
	pods, err := l.Pods(count)
	must(t, err)
	for i, p := range pods {
		_, err := w.kube.Create(ctx, tracker, l, pods[i:i+1])
		must(t, err)
		must(t, tracker.Wait(ctx, "the pod runs", func(s *measure.Seen) bool { return s.Running > i }))
		must(t, w.kube.Delete(ctx, tracker, l, []string{p.Name}))
		must(t, tracker.Wait(ctx, "the pod is gone", func(s *measure.Seen) bool { return s.Gone > i }))
	}
	return tracker.BoundSince(start).Latency
}

// atOnce creates pods at once and waits until all are bound and run.
func (w *world) atOnce(t *testing.T, l measure.Load, count int) (measure.Bound, *measure.Tracker) {
	t.Helper()
	ctx := w.phase(t)
	tracker := w.track(t, l)
	pods, err := l.Pods(count)
	must(t, err)
	before, start := measure.ReadPrograms(), time.Now()
	_, err = w.kube.Create(ctx, tracker, l, pods)
	must(t, err)
	must(t, tracker.Wait(ctx, "all pods are bound", func(s *measure.Seen) bool { return s.Bound >= count }))
	used, by := measure.ReadPrograms().Since(before)
	t.Logf("%d pods of scheduler %s bound: %.1f ms of processor time each; %s", count, l.Scheduler, 1000*used/float64(count), by)
	must(t, tracker.Wait(ctx, "all pods run", func(s *measure.Seen) bool { return s.Running >= count }))
	return tracker.BoundSince(start), tracker
}

func (w *world) clear(t *testing.T, tracker *measure.Tracker, l measure.Load) {
	t.Helper()
	must(t, w.kube.DeleteAll(w.phase(t), tracker, l))
}

// stockAlone measures kube-scheduler without the bridge.
func (w *world) stockAlone(t *testing.T) {
	w.startStock(t)
	warm := w.load("default-scheduler")
	w.oneByOne(t, warm, 5)
	one := w.oneByOne(t, w.load("default-scheduler"), 30)
	t.Logf("stock scheduler, one pod: %v", one)
	w.table.stockOne = one.P50
	w.table.stock = map[int]float64{}
	for _, n := range singles {
		l := w.load("default-scheduler")
		b, tracker := w.atOnce(t, l, n)
		t.Logf("stock scheduler, %d pods: %.0f pods/s, latency %v", n, b.PerSecond, b.Latency)
		w.table.stock[n] = b.PerSecond
		w.clear(t, tracker, l)
	}
}

// slurmAlone measures Slurm without the bridge.
func (w *world) slurmAlone(t *testing.T) {
	s := startSlurm(t)
	ctx := w.phase(t)
	w.table.registered = s.register(ctx, t)
	t.Logf("bare Slurm: %.0f nodes/s", w.table.registered)
	job := measure.BareJobs{Name: "bare", Partition: partition, CPUs: 1, MemoryMiB: 1024, Exclusive: true, Workers: 16}
	var calls []time.Duration
	for range 30 {
		one := job
		one.Count, one.Workers, one.Now = 1, 1, true
		r := s.run(ctx, t, one)
		calls = append(calls, r.Submit)
		s.cancelAll(ctx, t, r.IDs)
	}
	w.table.bareOne = measure.QuantilesOf(calls).P50
	w.table.bare = map[int]float64{}
	for _, n := range singles {
		for _, now := range []bool{true, false} {
			job.Count, job.Now = n, now
			before := measure.ReadPrograms()
			r := s.run(ctx, t, job)
			used, by := measure.ReadPrograms().Since(before)
			t.Logf("bare Slurm, %d jobs, immediate %v: %.0f jobs/s, calls %v, %.1f ms of processor time each; %s", n, now, r.PerSecond, r.Call, 1000*used/float64(n), by)
			// The better of the two ways is what the bridge is held against.
			w.table.bare[n] = max(w.table.bare[n], r.PerSecond)
			s.cancelAll(ctx, t, r.IDs)
		}
	}
}

func (s *slurmWorld) run(ctx context.Context, t *testing.T, b measure.BareJobs) measure.BareTimes {
	t.Helper()
	r, err := s.bare.Run(ctx, b)
	must(t, errors.Join(err, r.FirstError))
	return r
}

// cancelAll cancels jobs and waits until none is left.
func (s *slurmWorld) cancelAll(ctx context.Context, t *testing.T, ids []string) {
	t.Helper()
	must(t, s.bare.Cancel(ctx, ids...))
	s.ended(ctx, t, ids)
}

// ended waits until jobs have ended and returns when each was seen to have.
func (s *slurmWorld) ended(ctx context.Context, t *testing.T, ids []string) map[string]time.Time {
	t.Helper()
	at := map[string]time.Time{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		states, now, err := s.bare.States(ctx)
		must(t, err)
		for _, id := range ids {
			if at[id].IsZero() && !measure.Active(states[id]) {
				at[id] = now
			}
		}
		if len(at) == len(ids) {
			return at
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs haven't ended: %v", len(ids)-len(at), len(ids), context.Cause(ctx))
		}
	}
}

// register registers all nodes with a bare loop and returns how many per second.
func (s *slurmWorld) register(ctx context.Context, t *testing.T) float64 {
	t.Helper()
	start := time.Now()
	work := make(chan int)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			var err error
			for i := range work {
				if err == nil {
					err = s.rest.CreateNode(ctx, externalNode(i))
				}
			}
			errs <- err
		}()
	}
	for i := range allNodes {
		work <- i
	}
	close(work)
	for range cap(errs) {
		must(t, <-errs)
	}
	return allNodes / time.Since(start).Seconds()
}

// bridge measures the bridge: first with Slurm at hand, then with the counting proxy between.
// Each part can be run by its name; it then starts what it needs.
func (w *world) bridge(t *testing.T) {
	w.install(t)
	s := startSlurm(t)
	if !t.Run("work", func(t *testing.T) {
		w.startController(t, s, s.URL)
		w.nodesRegistered(t, s)
		w.startScheduler(t, s, s.URL)
		w.oneByOne(t, w.load(config.DefaultSchedulerName), 5)
		t.Run("one", w.onePod)
		t.Run("singles", w.singlePods)
		t.Run("gangs", w.gangs)
		t.Run("deleted", func(t *testing.T) { w.podsDeleted(t, s) })
		t.Run("cancelled", func(t *testing.T) { w.jobsCancelled(t, s) })
	}) {
		return
	}
	t.Run("counted", func(t *testing.T) {
		proxy, at := s.proxied(t)
		c := &counted{proxy: proxy, processes: []*process{w.startController(t, s, at), w.startScheduler(t, s, at)}}
		s.registered(w.phase(t), t)
		w.oneByOne(t, w.load(config.DefaultSchedulerName), 5)
		t.Run("idle", func(t *testing.T) { w.idle(t, c) })
		t.Run("calls", func(t *testing.T) { w.callsPerPod(t, c) })
		t.Run("full", func(t *testing.T) { w.fullCluster(t, s, c) })
	})
}
