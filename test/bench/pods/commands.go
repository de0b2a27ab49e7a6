package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/test/bench/measure"
)

// begin makes the namespace and follows the pods of the run.
func (t *tool) begin(ctx context.Context) (*measure.Tracker, error) {
	_, err := t.kube.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s: %w", t.namespace, err)
	}
	return t.kube.Track(ctx, t.namespace, t.run, t.jobLabel)
}

// patience bounds a wait.
func (t *tool) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("it took longer than %s", t.timeout))
}

func (t *tool) pods(ctx context.Context) error {
	tracker, err := t.begin(ctx)
	if err != nil {
		return err
	}
	if t.repeat > 0 {
		return t.oneByOne(ctx, tracker)
	}
	pods, err := t.load().Pods(t.count)
	if err != nil {
		return err
	}
	result, cost, err := t.createAndBind(ctx, tracker, pods)
	if err != nil {
		return err
	}
	result["cmd"] = "pods"
	if err := t.finish(result, cost); err != nil {
		return err
	}
	return t.cleanUp(ctx, tracker)
}

func (t *tool) oneByOne(ctx context.Context, tracker *measure.Tracker) error {
	pods, err := t.load().Pods(t.repeat)
	if err != nil {
		return err
	}
	m := t.meter(ctx)
	start := time.Now()
	for i, p := range pods {
		if err := t.one(ctx, tracker, pods[i:i+1], p.Name); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(t.gap):
		}
	}
	cost := m.Stop(ctx, t.out)
	q := tracker.BoundSince(start).Latency
	t.say(t.out, "one pod at a time: %v\n", q)
	return t.finish(map[string]any{"cmd": "pods-repeat", "latency": q}, cost)
}

func (t *tool) one(ctx context.Context, tracker *measure.Tracker, pod []*corev1.Pod, name string) error {
	ctx, cancel := t.patience(ctx)
	defer cancel()
	if _, err := t.kube.Create(ctx, tracker, t.load(), pod); err != nil {
		return err
	}
	if err := tracker.Wait(ctx, "pod "+name+" is bound", func(s *measure.Seen) bool { return !s.Pods[name].Bound.IsZero() }); err != nil {
		t.say(t.out, "%v\n", err)
		return nil
	}
	if t.keep {
		return nil
	}
	if err := t.kube.Delete(ctx, tracker, t.load(), []string{name}); err != nil {
		return err
	}
	return tracker.Wait(ctx, "pod "+name+" is gone", func(s *measure.Seen) bool { return !s.Pods[name].Gone.IsZero() })
}

// createAndBind creates pods, waits until they are bound, and prints how that went.
func (t *tool) createAndBind(ctx context.Context, tracker *measure.Tracker, pods []*corev1.Pod) (result, cost map[string]any, err error) {
	wait, cancel := t.patience(ctx)
	defer cancel()
	m := t.meter(ctx)
	start := time.Now()
	failed, err := t.kube.Create(wait, tracker, t.load(), pods)
	if err != nil {
		t.say(t.log, "%v\n", err)
	}
	created := time.Since(start)
	missing := tracker.Wait(wait, "all pods are bound", func(s *measure.Seen) bool { return s.Bound >= len(pods)-failed })
	if missing != nil {
		t.say(t.log, "%v\n", missing)
	}
	cost = m.Stop(ctx, t.out)
	b := tracker.BoundSince(start)
	t.say(t.out, "%d of %d bound (complete %v) in %.2f s = %.2f pods/s; creation took %.2f s\n",
		b.Bound, b.Pods, missing == nil, b.Wall.Seconds(), b.PerSecond, created.Seconds())
	t.say(t.out, "creation to bound: %v\nhalf of the pods bound at %.2f s, 90%% at %.2f s\nnodes used: %d\n", b.Latency, b.End.P50, b.End.P90, b.Nodes)
	return map[string]any{
		"pods": b.Pods, "bound": b.Bound, "complete": missing == nil, "wall_s": b.Wall.Seconds(), "pods_per_s": b.PerSecond,
		"create_s": created.Seconds(), "latency": b.Latency, "nodes_used": b.Nodes,
	}, cost, ctx.Err()
}

func (t *tool) cleanUp(ctx context.Context, tracker *measure.Tracker) error {
	if t.keep {
		return nil
	}
	ctx, cancel := t.patience(ctx)
	defer cancel()
	start := time.Now()
	err := t.kube.DeleteAll(ctx, tracker, t.load())
	t.say(t.out, "clean-up: %.1f s (done %v)\n", time.Since(start).Seconds(), err == nil)
	return err
}

func (t *tool) gang(ctx context.Context) error {
	g := measure.Gangs{API: measure.GangAPI(t.api), Version: t.apiVersion, Count: t.gangs, Size: t.size}
	tracker, err := t.begin(ctx)
	if err != nil {
		return err
	}
	pods, err := g.Make(ctx, t.kube, t.load())
	if err != nil {
		return err
	}
	result, cost, err := t.createAndBind(ctx, tracker, pods)
	if err != nil {
		return err
	}
	times := tracker.GangTimes(g, t.load())
	t.say(t.out, "complete gangs: %d of %d; partly bound: %d\ngang creation to last member bound: %v\nfirst to last member bound: %v\n",
		times.Complete, t.gangs, times.Partly, times.Whole, times.Spread)
	result["cmd"], result["gangs_complete"], result["gang_latency"], result["gang_spread"] = "gang", times.Complete, times.Whole, times.Spread
	if err := t.finish(result, cost); err != nil || t.keep {
		return err
	}
	return errors.Join(t.cleanUp(ctx, tracker), g.Remove(ctx, t.kube, t.load()))
}

// picked returns up to -count bound pods that nobody deletes yet, with their jobs.
func (t *tool) picked(tracker *measure.Tracker) (names []string, jobs map[string]string) {
	jobs = map[string]string{}
	tracker.Read(func(s *measure.Seen) {
		for name, p := range s.Pods {
			if len(names) == t.count {
				return
			}
			if p.Bound.IsZero() || !p.Deleting.IsZero() {
				continue
			}
			names = append(names, name)
			if p.Job != "" {
				jobs[name] = p.Job
			}
		}
	})
	return names, jobs
}

// since returns when something happened to pods, counted from a moment.
func since(tracker *measure.Tracker, names []string, start time.Time, what func(*measure.PodTimes) time.Time) measure.Quantiles {
	var d []time.Duration
	tracker.Read(func(s *measure.Seen) {
		for _, name := range names {
			if at := what(s.Pods[name]); !at.IsZero() {
				d = append(d, at.Sub(start))
			}
		}
	})
	return measure.QuantilesOf(d)
}

func goneAt(p *measure.PodTimes) time.Time { return p.Gone }

func allGone(names []string) func(*measure.Seen) bool {
	return func(s *measure.Seen) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return s.Pods[name].Gone.IsZero() })
	}
}

func (t *tool) remove(ctx context.Context) error {
	tracker, err := t.begin(ctx)
	if err != nil {
		return err
	}
	names, jobs := t.picked(tracker)
	wait, cancel := t.patience(ctx)
	defer cancel()
	m := t.meter(ctx)
	start := time.Now()
	if err := t.kube.Delete(wait, tracker, t.load(), names); err != nil {
		return err
	}
	calls := time.Since(start)
	ended := make(chan measure.Quantiles, 1)
	if t.slurm != nil {
		go func() { ended <- t.jobsEnded(wait, jobs, start) }()
	}
	missing := tracker.Wait(wait, "the pods are gone", allGone(names))
	gone := since(tracker, names, start, goneAt)
	result := map[string]any{"cmd": "delete", "pods": len(names), "complete": missing == nil, "pods_gone": gone}
	t.say(t.out, "deleted %d pods (calls took %.2f s); complete %v; pods gone: %v\n", len(names), calls.Seconds(), missing == nil, gone)
	if t.slurm != nil {
		q := <-ended
		t.say(t.out, "Slurm jobs of those pods: %d; ended: %v\n", len(jobs), q)
		result["jobs"], result["jobs_gone"] = len(jobs), q
	}
	return t.finish(result, m.Stop(ctx, t.out))
}

// jobsEnded waits until jobs neither run nor wait.
func (t *tool) jobsEnded(ctx context.Context, jobs map[string]string, start time.Time) measure.Quantiles {
	left := map[string]bool{}
	for _, id := range jobs {
		left[id] = true
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var d []time.Duration
	for len(left) > 0 {
		states, now, err := t.slurm.States(ctx)
		if err != nil {
			t.say(t.log, "%v\n", err)
			return measure.QuantilesOf(d)
		}
		for id := range left {
			if !measure.Active(states[id]) {
				d = append(d, now.Sub(start))
				delete(left, id)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return measure.QuantilesOf(d)
		}
	}
	return measure.QuantilesOf(d)
}

func (t *tool) cancel(ctx context.Context) error {
	tracker, err := t.begin(ctx)
	if err != nil {
		return err
	}
	names, jobs := t.picked(tracker)
	wait, cancel := t.patience(ctx)
	defer cancel()
	m := t.meter(ctx)
	start := time.Now()
	for _, id := range jobs {
		if err := t.slurm.Call(wait, http.MethodDelete, "/job/"+id, nil, nil); err != nil {
			t.say(t.log, "cancel: %v\n", err)
		}
	}
	calls := time.Since(start)
	missing := tracker.Wait(wait, "the pods are gone", allGone(names))
	asked := since(tracker, names, start, func(p *measure.PodTimes) time.Time { return p.Deleting })
	gone := since(tracker, names, start, goneAt)
	t.say(t.out, "cancelled %d jobs (calls took %.2f s); complete %v\ndeletion asked: %v\npods gone: %v\n",
		len(jobs), calls.Seconds(), missing == nil, asked, gone)
	return t.finish(map[string]any{"cmd": "cancel", "jobs": len(jobs), "complete": missing == nil, "deletion_asked": asked, "pods_gone": gone},
		m.Stop(ctx, t.out))
}

func (t *tool) idle(ctx context.Context) error {
	m := t.meter(ctx)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(t.duration):
	}
	return t.finish(map[string]any{"cmd": "idle"}, m.Stop(ctx, t.out))
}

func (t *tool) bare(ctx context.Context) error {
	memory, err := resource.ParseQuantity(t.memory)
	if err != nil {
		return fmt.Errorf("-mem: %w", err)
	}
	cpu, err := resource.ParseQuantity(t.cpu)
	if err != nil {
		return fmt.Errorf("-cpu: %w", err)
	}
	wait, cancel := t.patience(ctx)
	defer cancel()
	m := t.meter(ctx)
	r, err := t.slurm.Run(wait, measure.BareJobs{
		Name: t.run, Partition: t.partition, Count: t.count, Workers: t.workers, Rate: t.rate, CPUs: int(cpu.Value()), MemoryMiB: memory.Value() >> 20,
	})
	for _, err := range []error{err, r.FirstError} {
		if err != nil {
			t.say(t.log, "%v\n", err)
		}
	}
	cost := m.Stop(ctx, t.out)
	t.say(t.out, "%d jobs, %d submitters: submitted in %.2f s (%.1f/s, %d errors), all RUNNING %v in %.2f s = %.1f jobs/s\n",
		t.count, t.workers, r.Submit.Seconds(), float64(t.count)/r.Submit.Seconds(), r.Failed, err == nil, r.Wall.Seconds(), r.PerSecond)
	t.say(t.out, "submit call: %v\nsubmit to RUNNING seen (polled each 0.1 s): %v\n", r.Call, r.Latency)
	err = t.finish(map[string]any{
		"cmd": "slurm", "jobs": t.count, "workers": t.workers, "submit_s": r.Submit.Seconds(), "wall_s": r.Wall.Seconds(),
		"jobs_per_s": r.PerSecond, "call": r.Call, "latency": r.Latency, "errors": r.Failed, "complete": err == nil,
	}, cost)
	if err != nil || t.keep {
		return err
	}
	return t.slurm.Cancel(ctx, r.IDs...)
}

func (t *tool) proxy(ctx context.Context) error {
	target, err := url.Parse(t.target)
	if err != nil || !strings.HasPrefix(target.Scheme, "http") {
		return fmt.Errorf("-target is %q, not a URL such as http://127.0.0.1:6820", t.target)
	}
	t.say(t.out, "proxy %s -> %s\n", t.listen, t.target)
	server := &http.Server{Addr: t.listen, Handler: measure.NewProxy(target), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
