package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/test/bench/measure"
)

// backfillPatience is how long a small job may wait for Slurm's backfill. It is longer
// on a busy machine: what doesn't start in time is written down as that.
const backfillPatience = 45 * time.Second

// smallPods measures small pods behind the waiting ones: in the same partition,
// where Slurm's backfill decides, against a bare job there, and in another one.
func (w *world) smallPods(t *testing.T, s *slurmWorld, c *counted) {
	w.smallAside(t, s, c)
	bare := w.tries(t, 3, func(ctx context.Context) (time.Duration, error) { return s.smallJob(ctx, t, w, partition) })
	same := w.tries(t, 5, func(ctx context.Context) (time.Duration, error) { return w.smallPod(ctx, t, partition) })
	limit, got := measure.QuantilesOf(bare), measure.QuantilesOf(same)
	w.table.add(row{
		what:     "2,000 pods waiting on a full cluster: a small pod that fits, same partition",
		measured: fmt.Sprintf("p50 %s, max %s", seconds(got.P50), seconds(got.Max)),
		limit:    fmt.Sprintf("bare Slurm job p50 %s, max %s", seconds(limit.P50), seconds(limit.Max)),
		reach:    "as bare Slurm", met: got.P50 <= limit.Max+w.table.idleOne,
	})
}

// smallAside measures one in the other partition, against a bare job there: the same locks of slurmctld are in their way.
func (w *world) smallAside(t *testing.T, s *slurmWorld, c *counted) {
	bare := w.tries(t, 20, func(ctx context.Context) (time.Duration, error) { return s.smallJob(ctx, t, w, aside) })
	before := c.proxy.Counted()
	other := w.tries(t, 20, func(ctx context.Context) (time.Duration, error) { return w.smallPod(ctx, t, aside) })
	for kind, x := range c.since(before) {
		t.Logf("%s: %d calls, mean %.0f ms", kind, x.N, x.Ms/float64(x.N))
	}
	limit, got := measure.QuantilesOf(bare), measure.QuantilesOf(other)
	w.table.add(row{
		what:     "the same, a small pod in another partition",
		measured: fmt.Sprintf("p50 %s, p99 %s", seconds(got.P50), seconds(got.P99)),
		limit:    fmt.Sprintf("idle cluster p50 %s, bare Slurm job p50 %s, p99 %s", seconds(w.table.idleOne), seconds(limit.P50), seconds(limit.P99)),
		reach:    "as on an idle cluster", met: got.P50 < 0.05 && got.P99 < 0.25,
	})
}

// smallJob runs a bare job of one CPU that shares its node, and returns how long it took until it ran:
// by an immediate allocation in the other partition, queued behind those that wait.
func (s *slurmWorld) smallJob(ctx context.Context, t *testing.T, w *world, partition string) (time.Duration, error) {
	t.Helper()
	r, err := s.bare.Run(ctx, measure.BareJobs{Name: "small", Partition: partition, Count: 1, Workers: 1, CPUs: 1, MemoryMiB: 1024, Now: partition == aside})
	if err == nil {
		err = r.FirstError
	}
	if len(r.IDs) > 0 {
		s.cancelAll(w.phase(t), t, r.IDs)
	}
	return r.Wall, err
}

// tries returns how long each of some tries took. One that isn't done in time counts as all of it, and
// is the last: the run has an end.
func (w *world) tries(t *testing.T, count int, try func(context.Context) (time.Duration, error)) []time.Duration {
	t.Helper()
	var out []time.Duration
	for range count {
		ctx, cancel := context.WithTimeout(w.live, backfillPatience)
		took, err := try(ctx)
		cancel()
		if err != nil {
			t.Logf("not within %s: %v", backfillPatience, err)
			return append(out, backfillPatience)
		}
		out = append(out, took)
	}
	return out
}

// smallPod creates a pod of one CPU that shares its node, and returns how long it took until bound.
func (w *world) smallPod(ctx context.Context, t *testing.T, partition string) (time.Duration, error) {
	t.Helper()
	l := w.load(config.DefaultSchedulerName)
	l.Annotations = map[string]string{v1beta1.AnnotationExclusive: "false", v1beta1.AnnotationPartition: partition}
	tracker := w.track(t, l)
	start := time.Now()
	pods, err := l.Pods(1)
	must(t, err)
	_, err = w.kube.Create(ctx, tracker, l, pods)
	must(t, err)
	err = tracker.Wait(ctx, "the pod is bound", func(s *measure.Seen) bool { return s.Bound > 0 })
	took := tracker.BoundSince(start).Latency.Max
	w.clear(t, tracker, l)
	return time.Duration(took * float64(time.Second)), err
}
