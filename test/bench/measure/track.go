package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// PodTimes is when what happened to a pod, zero for not yet.
type PodTimes struct {
	// Created and Asked are when its creation and its deletion were asked for here.
	Created, Asked time.Time
	// Bound, Running, Ended, Deleting and Gone are when that was seen.
	Bound, Running, Ended, Deleting, Gone time.Time
	// Job is the Slurm job that the pod names, Node its node.
	Job, Node string
}

// Seen is what a Tracker knows. It is read by the functions that a Tracker calls.
type Seen struct {
	Pods map[string]*PodTimes
	// Bound, Running, Deleting and Gone count pods that were seen so.
	Bound, Running, Deleting, Gone int
	// Told counts the pods that say why they wait.
	Told int

	told map[string]bool
}

// Known counts the pods that exist or existed.
func (s *Seen) Known() int { return len(s.Pods) }

func (s *Seen) pod(name string) *PodTimes {
	p := s.Pods[name]
	if p == nil {
		p = &PodTimes{}
		s.Pods[name] = p
	}
	return p
}

// first notes that something is seen for the first time.
func first(at *time.Time, now time.Time, count *int) {
	if at.IsZero() {
		*at = now
		*count++
	}
}

func (s *Seen) update(p *corev1.Pod, now time.Time, jobLabel string) {
	x := s.pod(p.Name)
	if p.Spec.NodeName != "" {
		first(&x.Bound, now, &s.Bound)
		x.Node = p.Spec.NodeName
	} else if len(p.Status.Conditions) > 0 && !s.told[p.Name] {
		s.told[p.Name] = true
		s.Told++
	}
	if p.Status.Phase == corev1.PodRunning {
		first(&x.Running, now, &s.Running)
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		first(&x.Ended, now, new(int))
	}
	if p.DeletionTimestamp != nil {
		first(&x.Deleting, now, &s.Deleting)
	}
	if id := p.Labels[jobLabel]; id != "" {
		x.Job = id
	}
}

// Tracker follows the pods of a run.
type Tracker struct {
	mu   sync.Mutex
	seen Seen
	wake chan struct{}
}

// Track follows the pods of a run until the context ends. It has seen those that exist when it returns.
func (k *Kube) Track(ctx context.Context, namespace, run, jobLabel string) (*Tracker, error) {
	t := &Tracker{seen: Seen{Pods: map[string]*PodTimes{}, told: map[string]bool{}}, wake: make(chan struct{}, 1)}
	factory := informers.NewSharedInformerFactoryWithOptions(k.Client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = RunLabel + "=" + run }))
	update := func(obj any) {
		if p, ok := obj.(*corev1.Pod); ok {
			t.change(func(s *Seen, now time.Time) { s.update(p, now, jobLabel) })
		}
	}
	reg, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    update,
		UpdateFunc: func(_, obj any) { update(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if p, ok := obj.(*corev1.Pod); ok {
				t.change(func(s *Seen, now time.Time) {
					x := s.pod(p.Name)
					first(&x.Deleting, now, &s.Deleting)
					first(&x.Gone, now, &s.Gone)
				})
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of run %s: %w", run, err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		return nil, fmt.Errorf("watch the pods of run %s: %w", run, context.Cause(ctx))
	}
	return t, nil
}

func (t *Tracker) change(do func(s *Seen, now time.Time)) {
	now := time.Now()
	t.mu.Lock()
	do(&t.seen, now)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Tracker) creating(name string) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.pod(name).Created = now
}

func (t *Tracker) asked(name string) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.pod(name).Asked = now
}

// Read gives what is known to a function.
func (t *Tracker) Read(do func(*Seen)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(&t.seen)
}

// Wait waits until done says so. One goroutine may wait at a time.
func (t *Tracker) Wait(ctx context.Context, what string, done func(*Seen) bool) error {
	for {
		t.mu.Lock()
		ok := done(&t.seen)
		s := t.seen
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; of %d pods %d are bound, %d run, %d are being deleted, %d gone",
				what, context.Cause(ctx), s.Known(), s.Bound, s.Running, s.Deleting, s.Gone)
		}
	}
}

// Bound sums up how pods were bound since start.
type Bound struct {
	Pods, Bound, Nodes int
	// Wall is from the start to the last pod bound, PerSecond the pods by it.
	Wall      time.Duration
	PerSecond float64
	// Latency is from creation to bound, End from the start to bound.
	Latency, End Quantiles
}

// BoundSince sums up what is known of the pods that were created since start.
func (t *Tracker) BoundSince(start time.Time) Bound {
	var b Bound
	var latency, end []time.Duration
	nodes := map[string]bool{}
	t.Read(func(s *Seen) {
		for _, p := range s.Pods {
			if p.Created.Before(start) {
				continue
			}
			b.Pods++
			if p.Bound.IsZero() {
				continue
			}
			latency = append(latency, p.Bound.Sub(p.Created))
			end = append(end, p.Bound.Sub(start))
			b.Wall = max(b.Wall, p.Bound.Sub(start))
			nodes[p.Node] = true
		}
	})
	b.Bound, b.Nodes = len(latency), len(nodes)
	b.Latency, b.End = QuantilesOf(latency), QuantilesOf(end)
	if b.Wall > 0 {
		b.PerSecond = float64(b.Bound) / b.Wall.Seconds()
	}
	return b
}
