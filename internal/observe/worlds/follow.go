package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// Periods of following.
const (
	// watchLasts is how long one watch runs. Its renewal proves that what is known is still true,
	// on a quiet cluster too.
	watchLasts = 15 * time.Second
	// watchSlack is how much later than asked for a watch may end, and listLasts how long one answer may take.
	watchSlack = 5 * time.Second
	listLasts  = time.Minute
	// pollEach is how often objects are listed that may not be watched.
	pollEach = 10 * time.Second
	// probeEach is how often it is tried whether more may be seen by now.
	probeEach = time.Minute
	// retryEach is how soon an API server that gave no answer is asked again.
	retryEach = 2 * time.Second
)

// source lists and watches objects of one kind, in a namespace or in all.
type source struct {
	what    string // what people call them
	right   string // the resource in a rule of RBAC
	example runtime.Object
	list    func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error)
	watch   func(ctx context.Context, namespace string, o metav1.ListOptions) (watch.Interface, error)
}

// lacking says which right a reader has not.
func lacking(verb, resource, namespace string) string {
	where := "in all namespaces"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	if resource == "nodes" {
		where = "of the cluster"
	}
	return fmt.Sprintf("you may not %s %s %s", verb, resource, where)
}

// lackError is a refusal of the API server, in short words.
type lackError struct {
	text string
	err  error
}

func (l lackError) Error() string { return l.text }
func (l lackError) Unwrap() error { return l.err }

// way is how objects can be had.
type way struct {
	namespace string
	// none is set where they can't, and polled where they may be listed and not watched.
	none, polled bool
	// lacks are the rights that a better way takes.
	lacks []string
}

func (w way) same(o way) bool {
	return w.namespace == o.namespace && w.none == o.none && w.polled == o.polled && slices.Equal(w.lacks, o.lacks)
}

// follower keeps the objects of a source, and knows until when it was sure of them.
type follower struct {
	source
	// fallback is the namespace to look in where all may not be seen; "" for nowhere.
	fallback string
	// lasts is how long one watch runs, and again how often more is tried to be seen.
	lasts, again time.Duration

	mu sync.Mutex
	// objects returns what is known; nil for nothing yet.
	objects func() []any
	way     way
	proved  time.Time
	err     error
}

// run follows the objects until ctx ends.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := f.probe(ctx)
		if err != nil {
			f.failed(err)
			wait(ctx, retryEach)
			continue
		}
		f.mu.Lock()
		f.way, f.objects, f.proved, f.err = w, nil, time.Time{}, nil
		f.mu.Unlock()
		f.follow(ctx, w)
	}
}

// follow goes one way, until ctx ends or another way is to be gone.
func (f *follower) follow(ctx context.Context, w way) {
	ctx, stop := context.WithCancel(ctx)
	var going sync.WaitGroup
	switch {
	case w.none:
	case w.polled:
		going.Go(func() { f.poll(ctx, w.namespace, stop) })
	default:
		going.Go(func() { f.inform(ctx, w.namespace, stop) })
	}
	defer going.Wait()
	defer stop()
	for {
		wait(ctx, f.again)
		if ctx.Err() != nil {
			return
		}
		if len(w.lacks) == 0 {
			continue
		}
		if better, err := f.probe(ctx); err == nil && !better.same(w) {
			return
		}
	}
}

// wait waits for a time, or for the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// probe finds the best way that the reader's rights allow.
func (f *follower) probe(ctx context.Context) (way, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*pulse)
	defer cancel()
	w := way{none: true}
	for _, namespace := range slices.Compact([]string{"", f.fallback}) {
		_, err := f.list(ctx, namespace, metav1.ListOptions{Limit: 1})
		if apierrors.IsForbidden(err) {
			w.lacks = append(w.lacks, lacking("list", f.right, namespace))
			continue
		}
		if err != nil {
			return w, fmt.Errorf("list %s: %w", f.what, err)
		}
		w.namespace, w.none = namespace, false
		seconds := int64(1)
		open, err := f.watch(ctx, namespace, metav1.ListOptions{TimeoutSeconds: &seconds})
		switch {
		case err == nil:
			open.Stop()
		case apierrors.IsForbidden(err):
			w.polled = true
			w.lacks = append(w.lacks, lacking("watch", f.right, namespace))
		default:
			return w, fmt.Errorf("watch %s: %w", f.what, err)
		}
		break
	}
	return w, nil
}

// poll lists the objects now and then.
func (f *follower) poll(ctx context.Context, namespace string, forbidden func()) {
	for ctx.Err() == nil {
		began := time.Now()
		var objects []any
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return f.list(ctx, namespace, o)
		})
		bounded, cancel := context.WithTimeout(ctx, listLasts)
		err := list.EachListItem(bounded, metav1.ListOptions{}, func(o runtime.Object) error {
			kept, err := slim(o)
			objects = append(objects, kept)
			return err
		})
		cancel()
		switch {
		case apierrors.IsForbidden(err):
			forbidden()
			return
		case err != nil:
			f.failed(fmt.Errorf("list %s: %w", f.what, err))
		default:
			f.mu.Lock()
			f.objects, f.proved, f.err = func() []any { return objects }, began, nil
			f.mu.Unlock()
		}
		wait(ctx, pollEach)
	}
}

// inform watches the objects.
func (f *follower) inform(ctx context.Context, namespace string, forbidden func()) {
	informer := cache.NewSharedIndexInformer(&proving{f, namespace, forbidden}, f.example, 0, nil)
	if err := informer.SetTransform(slim); err != nil {
		f.failed(err)
		return
	}
	f.mu.Lock()
	f.objects = func() []any {
		if !informer.HasSynced() {
			return nil
		}
		return append([]any{}, informer.GetStore().List()...)
	}
	f.mu.Unlock()
	informer.RunWithContext(ctx)
}

func (f *follower) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// heard notes that the API server has just told of all changes so far.
func (f *follower) heard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proved, f.err = time.Now(), nil
}

// known returns the objects and what may not be seen of them; or else the part that is missing.
func (f *follower) known(now time.Time, oldest time.Duration) ([]any, way, *view.Part) {
	f.mu.Lock()
	objects, w, proved, err := f.objects, f.way, f.proved, f.err
	f.mu.Unlock()
	if w.none {
		return nil, w, &view.Part{What: f.what, Forbidden: true, Error: w.lacks[0]}
	}
	var list []any
	if objects != nil {
		list = objects()
	}
	if list != nil && now.Sub(proved) <= oldest {
		return list, w, nil
	}
	p := view.Part{What: f.what, Read: proved}
	switch {
	case err != nil:
		p.Error = err.Error()
	case !proved.IsZero():
		p.Error = "the API server has not confirmed them"
	}
	return nil, w, &p
}

// proving lists and watches for an informer, and notes each sign that what it has is still true.
// It is no client that streams lists: how long it takes to send one must not count as silence.
type proving struct {
	f         *follower
	namespace string
	forbidden func()
}

// IsWatchListSemanticsUnSupported has the informer list before it watches.
func (p *proving) IsWatchListSemanticsUnSupported() bool { return true }

func (p *proving) List(o metav1.ListOptions) (runtime.Object, error) {
	return p.ListWithContext(context.Background(), o)
}

func (p *proving) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return p.WatchWithContext(context.Background(), o)
}

func (p *proving) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listLasts)
	defer cancel()
	list, err := p.f.list(ctx, p.namespace, o)
	p.note("list", err)
	return list, err
}

func (p *proving) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	seconds := int64(max(1, p.f.lasts/time.Second))
	o.TimeoutSeconds = &seconds
	// The server ends it then; on a connection that is dead without saying so, nobody does.
	ctx, cancel := context.WithTimeout(ctx, p.f.lasts+watchSlack)
	w, err := p.f.watch(ctx, p.namespace, o)
	p.note("watch", err)
	if err != nil {
		cancel()
		return nil, err
	}
	p.f.heard()
	w = ending{w, cancel}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type != watch.Error {
			p.f.heard()
		}
		return e, true
	}), nil
}

// ending is a watch with a deadline.
type ending struct {
	watch.Interface
	cancel func()
}

func (e ending) Stop() {
	e.Interface.Stop()
	e.cancel()
}

func (p *proving) note(verb string, err error) {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		p.forbidden()
	default:
		p.f.failed(fmt.Errorf("%s %s: %w", verb, p.f.what, err))
	}
}
