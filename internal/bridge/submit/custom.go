package submit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// discoverEvery is how often the API server is asked what it serves: kinds come
// with what is installed, and versions go with an upgrade.
const discoverEvery = 10 * time.Second

// errNotRead tells that a kind hasn't been read yet, so nothing is known of its objects.
var errNotRead = errors.New("not read yet")

// Custom reads the objects of kinds that the API server may or may not serve, in
// whichever version it does. Make it with NewCustom.
type Custom struct {
	dynamic   dynamic.Interface
	discovery observe.Discovery

	podGroups, workloads, coscheduling, sets *customKind
}

// NewCustom returns a reader that reads nothing until it runs.
func NewCustom(d dynamic.Interface, discovery observe.Discovery) *Custom {
	return &Custom{
		dynamic: d, discovery: discovery,
		podGroups: &customKind{
			versions: workload.PodGroups(),
			convert:  func(u *unstructured.Unstructured) (any, error) { pg, err := workload.PodGroupOf(u); return &pg, err },
		},
		workloads: &customKind{
			versions: workload.Workloads(),
			convert: func(u *unstructured.Unstructured) (any, error) {
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
					Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(),
					ResourceVersion: u.GetResourceVersion(), Annotations: u.GetAnnotations(),
				}}, nil
			},
		},
		coscheduling: &customKind{
			versions: workload.CoschedulingPodGroups(),
			convert: func(u *unstructured.Unstructured) (any, error) {
				pg, err := workload.CoschedulingOf(u)
				return &pg, err
			},
		},
		sets: &customKind{
			versions: workload.LeaderWorkerSets(),
			convert: func(u *unstructured.Unstructured) (any, error) {
				set, err := workload.LeaderWorkerSetOf(u)
				return &set, err
			},
		},
	}
}

// customKind is one kind in the version that is served now.
type customKind struct {
	versions workload.Versions
	convert  func(*unstructured.Unstructured) (any, error)
	// changed is called for each object that is new, with nil for what it was, or has
	// changed, and arrived when the kind is served from now on.
	changed func(was, now any)
	arrived func()

	mu sync.RWMutex
	// asked tells whether the API server has said once which versions it serves.
	asked    bool
	version  schema.GroupVersionResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// failure is the last failure to read the kind at all.
	failure error
}

// Run reads until the context ends.
func (c *Custom) Run(ctx context.Context) {
	tick := time.NewTicker(discoverEvery)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, k := range []*customKind{c.podGroups, c.workloads, c.coscheduling, c.sets} {
			if err := c.follow(ctx, k, &running); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Can't tell whether the API server serves a kind; what is known of it stays", "kind", k.versions[0].GroupResource().String())
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow starts to read a kind that is served now, or in another version than before,
// and stops to read one that isn't served any more.
func (c *Custom) follow(ctx context.Context, k *customKind, running *sync.WaitGroup) error {
	version, err := observe.Served(c.discovery, k.versions)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked && version == k.version {
		return nil
	}
	if k.stop != nil {
		k.stop()
	}
	k.asked, k.version, k.informer, k.stop, k.failure = true, version, nil, nil, nil
	if version.Empty() {
		klog.FromContext(ctx).Info("The API server doesn't serve a kind; it is read once it does", "kind", k.versions[0].GroupResource().String())
		return nil
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(c.dynamic, version, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(k.transform); err != nil {
		return fmt.Errorf("read %s: %w", version, err)
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		k.fail(err)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", version, err)
	}
	if k.changed != nil {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { k.changed(nil, obj) }, UpdateFunc: k.changed,
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", version, err)
		}
	}
	klog.FromContext(ctx).Info("Read a kind", "resource", version.String())
	var kindCtx context.Context
	kindCtx, k.stop = context.WithCancel(ctx)
	k.informer = informer
	running.Go(func() { informer.RunWithContext(kindCtx) })
	if k.arrived != nil {
		k.arrived()
	}
	return nil
}

// transform makes what is kept of an object. One that can't be read is an error of its own, not of its kind.
func (k *customKind) transform(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out, err := k.convert(u)
	if err != nil {
		return &unreadable{ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		}, why: err}, nil
	}
	return out, nil
}

// unreadable stands for an object whose content isn't what its kind should have.
type unreadable struct {
	metav1.ObjectMeta
	why error
}

func (k *customKind) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = err
}

// kindError tells why a kind can't be read at all. It is an errNotRead.
type kindError struct {
	kind  schema.GroupResource
	cause error
}

func (e *kindError) Error() string { return fmt.Sprintf("%s can't be read: %v", e.kind, e.cause) }

func (e *kindError) Is(target error) bool { return target == errNotRead }

func (e *kindError) Unwrap() error { return e.cause }

// get returns an object of a kind, nil if it doesn't exist, and whether the kind is served.
func get[T any](k *customKind, namespace, name string) (*T, bool, error) {
	k.mu.RLock()
	asked, informer, failure := k.asked, k.informer, k.failure
	k.mu.RUnlock()
	switch {
	case !asked:
		return nil, false, fmt.Errorf("%s: %w", k.versions[0].GroupResource(), errNotRead)
	case informer == nil:
		return nil, false, nil
	case !informer.HasSynced() && failure != nil:
		return nil, true, &kindError{k.versions[0].GroupResource(), failure}
	case !informer.HasSynced():
		return nil, true, fmt.Errorf("%s: %w", k.versions[0].GroupResource(), errNotRead)
	}
	obj, ok, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil, true, err
	}
	switch obj := obj.(type) {
	case *T:
		return obj, true, nil
	case *unreadable:
		return nil, true, obj.why
	}
	return nil, true, fmt.Errorf("%s %s/%s is kept as %T", k.versions[0].GroupResource(), namespace, name, obj)
}

// resource returns the version of a kind that is served now, false where none is.
func (k *customKind) resource() (schema.GroupVersionResource, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.version, !k.version.Empty()
}
