package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/test/bench/measure"
)

// registered waits until Slurm has all nodes.
func (s *slurmWorld) registered(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		parts, err := s.rest.Partitions(ctx)
		must(t, err)
		have := 0
		for _, p := range parts {
			have += p.TotalNodes
		}
		if have >= allNodes {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d nodes are registered: %v", have, allNodes, context.Cause(ctx))
		}
	}
}

// nodesRegistered measures how fast the controller, which has just started, registers the nodes.
func (w *world) nodesRegistered(t *testing.T, s *slurmWorld) {
	start := time.Now()
	s.registered(w.phase(t), t)
	took := time.Since(start).Seconds()
	limit, rate := w.table.registered, allNodes/took
	w.table.add(row{
		what:     fmt.Sprintf("%d nodes registered in Slurm, from the start of the controller", allNodes),
		measured: fmt.Sprintf("%.1f s, %.0f nodes/s, %s", took, rate, ofLimit(rate, limit)),
		limit:    fmt.Sprintf("%.0f nodes/s in calls of one node each", limit),
		reach:    ">= 60 % of the limit", met: limit > 0 && rate >= 0.6*limit,
	})
}

func (w *world) onePod(t *testing.T) {
	q := w.oneByOne(t, w.load(config.DefaultSchedulerName), 100)
	t.Logf("one pod: %v", q)
	w.table.idleOne = q.P50
	w.table.add(row{
		what:     "one pod, created to bound, idle cluster",
		measured: fmt.Sprintf("p50 %s, p99 %s", seconds(q.P50), seconds(q.P99)),
		limit:    fmt.Sprintf("stock scheduler %s, bare Slurm %s", seconds(w.table.stockOne), seconds(w.table.bareOne)),
		reach:    "p50 < 50 ms, p99 < 250 ms", met: q.P50 < 0.05 && q.P99 < 0.25,
	})
}

func (w *world) singlePods(t *testing.T) {
	for _, n := range singles {
		t.Run(fmt.Sprint(n), func(t *testing.T) { w.podsAtOnce(t, n) })
	}
}

func (w *world) podsAtOnce(t *testing.T, n int) {
	wait := w.takeProfile(t, fmt.Sprintf("singles-%d", n), max(3, n/70))
	l := w.load(config.DefaultSchedulerName)
	b, tracker := w.atOnce(t, l, n)
	t.Logf("%d pods: %.0f pods/s, latency %v", n, b.PerSecond, b.Latency)
	wait()
	w.clear(t, tracker, l)
	stock, bare := w.table.stock[n], w.table.bare[n]
	limit := combined(stock, bare)
	w.table.add(row{
		what:     fmt.Sprintf("%d single pods at once", n),
		measured: fmt.Sprintf("%.0f pods/s, %s", b.PerSecond, ofLimit(b.PerSecond, limit)),
		limit:    fmt.Sprintf("%.0f pods/s (stock scheduler %.0f, bare Slurm %.0f)", limit, stock, bare),
		reach:    ">= 80 % of the limit", met: limit > 0 && b.PerSecond >= 0.8*limit,
	})
}

func (w *world) gangs(t *testing.T) {
	for _, g := range []measure.Gangs{
		{API: measure.GangBuiltin, Version: "v1beta1", Count: 1, Size: 64},
		{API: measure.GangBuiltin, Version: "v1beta1", Count: 10, Size: 8},
	} {
		var whole []time.Duration
		for range 5 {
			whole = append(whole, w.gangsOnce(t, g)...)
		}
		q := measure.QuantilesOf(whole)
		what := fmt.Sprintf("a gang of %d, created to last bound", g.Size)
		if g.Count > 1 {
			what = fmt.Sprintf("%d gangs of %d at once, created to last bound", g.Count, g.Size)
		}
		w.table.add(row{
			what: what, measured: fmt.Sprintf("p50 %s, p99 %s", seconds(q.P50), seconds(q.P99)),
			limit: "-", reach: "p99 < 1 s", met: q.P99 < 1,
		})
	}
}

// gangsOnce returns how long each gang took.
func (w *world) gangsOnce(t *testing.T, g measure.Gangs) []time.Duration {
	t.Helper()
	ctx := w.phase(t)
	l := w.load(config.DefaultSchedulerName)
	tracker := w.track(t, l)
	pods, err := g.Make(ctx, w.kube, l)
	must(t, err)
	_, err = w.kube.Create(ctx, tracker, l, pods)
	must(t, err)
	must(t, tracker.Wait(ctx, "all members run", func(s *measure.Seen) bool { return s.Running >= len(pods) }))
	times := tracker.GangTimes(g, l)
	t.Logf("%d gangs of %d: whole %v, first to last %v", g.Count, g.Size, times.Whole, times.Spread)
	w.clear(t, tracker, l)
	must(t, g.Remove(ctx, w.kube, l))
	return times.Each
}

// podsDeleted measures how soon the jobs of deleted pods end.
func (w *world) podsDeleted(t *testing.T, s *slurmWorld) {
	ctx := w.phase(t)
	l := w.load(config.DefaultSchedulerName)
	_, tracker := w.atOnce(t, l, 100)
	names, jobs := tracked(tracker)
	ids := make([]string, 0, len(jobs))
	for _, id := range jobs {
		ids = append(ids, id)
	}
	must(t, w.kube.Delete(ctx, tracker, l, names))
	ended := s.ended(ctx, t, ids)
	must(t, tracker.Wait(ctx, "the pods are gone", func(s *measure.Seen) bool { return s.Gone >= len(names) }))
	var afterAsked, afterEnd []time.Duration
	tracker.Read(func(seen *measure.Seen) {
		for _, name := range names {
			p := seen.Pods[name]
			afterAsked = append(afterAsked, ended[jobs[name]].Sub(p.Asked))
			afterEnd = append(afterEnd, max(0, ended[jobs[name]].Sub(p.Ended)))
		}
	})
	asked, end := measure.QuantilesOf(afterAsked), measure.QuantilesOf(afterEnd)
	w.table.add(row{
		what: "100 running pods deleted, until their jobs have ended",
		measured: fmt.Sprintf("p50 %s, p99 %s after the pod's containers ended; p99 %s after the deletion was asked for",
			seconds(end.P50), seconds(end.P99), seconds(asked.P99)),
		limit: "-", reach: "p99 < 2 s after the pods are gone", met: end.P99 < 2,
	})
}

// tracked returns the names of the pods and the job of each.
func tracked(tracker *measure.Tracker) (names []string, jobs map[string]string) {
	jobs = map[string]string{}
	tracker.Read(func(s *measure.Seen) {
		for name, p := range s.Pods {
			names = append(names, name)
			jobs[name] = p.Job
		}
	})
	return names, jobs
}

// jobsCancelled measures how soon the deletion of pods is asked for whose jobs were cancelled.
func (w *world) jobsCancelled(t *testing.T, s *slurmWorld) {
	ctx := w.phase(t)
	var all []time.Duration
	for range 5 {
		l := w.load(config.DefaultSchedulerName)
		_, tracker := w.atOnce(t, l, 20)
		_, jobs := tracked(tracker)
		cancelled := map[string]time.Time{}
		for name, id := range jobs {
			cancelled[name] = time.Now()
			must(t, s.bare.Cancel(ctx, id))
		}
		must(t, tracker.Wait(ctx, "the pods are gone", func(s *measure.Seen) bool { return s.Gone >= len(jobs) }))
		tracker.Read(func(seen *measure.Seen) {
			for name, at := range cancelled {
				all = append(all, seen.Pods[name].Deleting.Sub(at))
			}
		})
	}
	q := measure.QuantilesOf(all)
	w.table.add(row{
		what:     "20 jobs cancelled in Slurm, until the pods' deletion is asked for",
		measured: fmt.Sprintf("p50 %s, p99 %s", seconds(q.P50), seconds(q.P99)),
		limit:    "-", reach: "p99 < 1 s", met: q.P99 < 1,
	})
}

// counted is the bridge behind the counting proxy.
type counted struct {
	proxy     *measure.Proxy
	processes []*process
}

// cost is what the bridge used in some time.
type cost struct {
	seconds  float64
	requests int64
	bytes    int64
	kinds    map[string]int64
	each     map[string]float64
	cpu      float64
}

// over measures what the bridge uses while nothing happens.
func (c *counted) over(t *testing.T, d time.Duration) cost {
	t.Helper()
	before, used := c.proxy.Counted(), usageOf(c.processes...)
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	calls, now := c.since(before), usageOf(c.processes...)
	out := cost{seconds: now.at.Sub(used.at).Seconds(), kinds: map[string]int64{}}
	for kind, x := range calls {
		out.kinds[kind] = x.N
		out.requests += x.N
		out.bytes += x.Bytes
	}
	out.each, out.cpu = now.since(used)
	t.Logf("in %.0f s: %d requests %v, %.2f MB, processors %v", out.seconds, out.requests, out.kinds, float64(out.bytes)/1e6, out.each)
	return out
}

// since returns the calls to Slurm since an earlier count.
func (c *counted) since(before map[string]measure.Calls) map[string]measure.Calls {
	out := map[string]measure.Calls{}
	for kind, x := range c.proxy.Counted() {
		if was := before[kind]; x.N > was.N {
			out[kind] = measure.Calls{N: x.N - was.N, Bytes: x.Bytes - was.Bytes, Ms: x.Ms - was.Ms}
		}
	}
	return out
}

func (x cost) String() string {
	return fmt.Sprintf("%.1f requests/s, %.0f kB/s, %s of a core", float64(x.requests)/x.seconds, float64(x.bytes)/1e3/x.seconds, percent(x.cpu))
}

// callsPerPod tells what one pod costs in calls, from its creation to its end: numbers that no load changes much.
func (w *world) callsPerPod(t *testing.T, c *counted) {
	const count = 100
	calls, writes := c.calls(t, w, count, func() {
		l := w.load(config.DefaultSchedulerName)
		_, tracker := w.atOnce(t, l, count)
		w.clear(t, tracker, l)
	})
	w.table.add(row{
		what:     "one pod from its creation to its end: calls to Slurm beside polls, writes to the API server",
		measured: fmt.Sprintf("%.1f calls, %.1f writes, of which 5 are its creation, its deletion and its kubelet's", calls, writes),
		limit:    "2 calls", reach: "-", met: true,
	})
	g := measure.Gangs{API: measure.GangBuiltin, Version: "v1beta1", Count: 1, Size: 64}
	calls, writes = c.calls(t, w, g.Size, func() { w.gangsOnce(t, g) })
	w.table.add(row{
		what:     "one pod of a gang of 64, the same",
		measured: fmt.Sprintf("%.2f calls, %.1f writes, of which 5 as above", calls, writes),
		limit:    "-", reach: "-", met: true,
	})
}

// calls returns what each of some pods cost in calls to Slurm beside polls, and in writes to the API server.
func (c *counted) calls(t *testing.T, w *world, count int, work func()) (perPod, perPodWrites float64) {
	t.Helper()
	restBefore := c.proxy.Counted()
	apiBefore, err := w.kube.APIRequests(t.Context())
	must(t, err)
	work()
	made := c.since(restBefore)
	apiAfter, err := w.kube.APIRequests(t.Context())
	must(t, err)
	calls := map[string]int64{}
	for kind, x := range made {
		if !slices.Contains(polls, kind) {
			calls[kind] = x.N
			perPod += float64(x.N) / float64(count)
		}
	}
	writes := map[string]float64{}
	for kind, n := range measure.Since(apiBefore, apiAfter) {
		verb, what, _ := strings.Cut(kind, " ")
		if verb == "GET" || verb == "LIST" || strings.HasPrefix(what, "nodes") {
			continue
		}
		writes[kind] = n
		perPodWrites += n / float64(count)
	}
	t.Logf("calls to Slurm for %d pods: %v; writes to the API server but for nodes, with those of this program and of kubelets: %v", count, calls, writes)
	return perPod, perPodWrites
}

// polls are the calls that are made whether there are pods or not.
var polls = []string{"GET /jobs/state/", "GET /diag/", "GET /nodes/?...", "GET /node/X"}

func (w *world) idle(t *testing.T, c *counted) {
	// A cluster counts as idle when nothing has changed for a minute.
	quiet := time.NewTimer(65 * time.Second)
	defer quiet.Stop()
	<-quiet.C
	wait := w.takeProfile(t, "idle", 30)
	x := c.over(t, 30*time.Second)
	wait()
	w.table.add(row{
		what:     fmt.Sprintf("idle, %d nodes: requests to Slurm, processor time of all processes", allNodes),
		measured: x.String(), limit: "-", reach: "<= 2 small requests per period, < 1 % of a core",
		met: x.cpu < 0.01 && x.requests <= int64(2*2*x.seconds/pollPeriod.Seconds()),
	})
}

// pollPeriod is how often each of the bridge's two processes polls Slurm's jobs on an idle cluster.
const pollPeriod = 2 * time.Second

// fullCluster measures a small pod that fits on a cluster that is full for 2,000 others, and what their waiting costs.
func (w *world) fullCluster(t *testing.T, s *slurmWorld, c *counted) {
	ctx := w.phase(t)
	// A native job leaves one CPU on each node.
	fill := s.run(ctx, t, measure.BareJobs{Name: "fill", Partition: partition, Count: 1, Workers: 1, Nodes: mainNodes, CPUs: nodeCPUs - 1, MemoryMiB: 1024, Now: true})
	shared := map[string]string{v1beta1.AnnotationExclusive: "false"}
	waiting := w.load(config.DefaultSchedulerName)
	waiting.CPU, waiting.Annotations = "4", shared
	tracker := w.track(t, waiting)
	pods, err := waiting.Pods(2000)
	must(t, err)
	start := time.Now()
	_, err = w.kube.Create(ctx, tracker, waiting, pods)
	must(t, err)
	must(t, tracker.Wait(ctx, "all pods say that they wait in Slurm", func(s *measure.Seen) bool { return s.Told >= len(pods) }))
	s.queued(ctx, t, len(pods))
	t.Logf("2,000 pods queued in Slurm in %v", time.Since(start).Round(time.Millisecond))
	w.smallPods(t, s, c)
	ctx = w.phase(t)
	wait := w.takeProfile(t, "waiting", 60)
	x := c.over(t, time.Minute)
	wait()
	w.table.add(row{
		what: "2,000 pods waiting: processor time of the bridge, bytes read from slurmrestd", measured: x.String(),
		limit: "-", reach: "< 3 % of a core", met: x.cpu < 0.03,
	})
	must(t, s.bare.Cancel(ctx, fill.IDs...))
	w.clear(t, tracker, waiting)
}

// queued waits until Slurm has that many waiting jobs.
func (s *slurmWorld) queued(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := s.rest.JobStates(ctx)
		must(t, err)
		n := 0
		for _, j := range list {
			if j.States.Has(slurm.JobPending) {
				n++
			}
		}
		if n >= count {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs wait: %v", n, count, context.Cause(ctx))
		}
	}
}
