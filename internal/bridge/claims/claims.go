// Package claims writes the ResourceClaims of the bridge's pods already allocated,
// with the devices that Slurm's numbers stand for. It knows Slurm only by its view.
package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/slurm"
)

// ErrWait is of what may be mended by time: the pod is tried again when claims or slices change.
var ErrWait = errors.New("devices can't be given now")

// View is the live view of Slurm.
type View interface {
	Node(name string) (slurm.Node, bool)
}

// Config is what a Writer needs.
type Config struct {
	Client  kubernetes.Interface
	Drivers device.Drivers
	View    View
	// SchedulerName is the bridge's.
	SchedulerName string
}

// Writer writes claims. Make it with New, before the informers start.
type Writer struct {
	Config
	nodes   corelisters.NodeLister
	pods    corelisters.PodLister
	classes resourcelisters.DeviceClassLister
	// claims are as they were last written here or seen.
	claims cache.MutationCache
	slices cache.Indexer
	// extendedNames finds the classes that serve extended resources by name.
	extendedNames *extendedresourcecache.ExtendedResourceCache
	expressions   *cel.Cache
	estimates     estimates
	// giving is held while devices are chosen and written.
	giving sync.Mutex
}

const (
	indexNode = "slinky-slices-by-node"
	indexPool = "slinky-claims-by-pool"
	// everyNode are the slices of no single node.
	everyNode = "*"
	// expressions is how many compiled expressions are kept.
	expressions = 100
	// claimTTL is how long a write is remembered that no event shows.
	claimTTL = time.Minute
)

// New returns a writer that reads from the informers of f.
func New(f informers.SharedInformerFactory, c Config) (*Writer, error) {
	resources := f.Resource().V1()
	slices, claims := resources.ResourceSlices().Informer(), resources.ResourceClaims().Informer()
	err := slices.AddIndexers(cache.Indexers{indexNode: func(obj any) ([]string, error) {
		s, ok := obj.(*resourcev1.ResourceSlice)
		if !ok {
			return nil, nil
		}
		if nodes := device.NodesOf(s); len(nodes) > 0 {
			return nodes, nil
		}
		return []string{everyNode}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index ResourceSlices: %w", err)
	}
	err = claims.AddIndexers(cache.Indexers{indexPool: func(obj any) ([]string, error) {
		c, ok := obj.(*resourcev1.ResourceClaim)
		if !ok || c.Status.Allocation == nil {
			return nil, nil
		}
		return poolsOf(*c.Status.Allocation), nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index ResourceClaims: %w", err)
	}
	w := &Writer{
		Config: c, nodes: f.Core().V1().Nodes().Lister(), pods: f.Core().V1().Pods().Lister(), classes: resources.DeviceClasses().Lister(),
		claims: cache.NewIntegerResourceVersionMutationCache(klog.Background(), claims.GetStore(), claims.GetIndexer(), claimTTL, true),
		slices: slices.GetIndexer(), extendedNames: extendedresourcecache.NewExtendedResourceCache(klog.Background()),
		expressions: cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: true}),
	}
	return w, w.watch(f)
}

// watch forgets what nodes offer when that may have changed.
func (w *Writer) watch(f informers.SharedInformerFactory) error {
	all := func(any) { w.estimates.forget() }
	slice := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		s, ok := obj.(*resourcev1.ResourceSlice)
		if !ok {
			return
		}
		w.estimates.forget(device.NodesOf(s)...)
	}
	node := func(obj any) {
		if n, ok := obj.(*corev1.Node); ok {
			w.estimates.forget(n.Name)
		}
	}
	resources := f.Resource().V1()
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{resources.DeviceClasses().Informer(), w.extendedNames},
		{resources.DeviceClasses().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: all, UpdateFunc: func(_, obj any) { all(obj) }, DeleteFunc: all}},
		{resources.ResourceSlices().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: slice, UpdateFunc: func(_, obj any) { slice(obj) }, DeleteFunc: slice}},
		{f.Core().V1().Nodes().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: node, UpdateFunc: func(before, obj any) {
			if b, ok := before.(*corev1.Node); !ok || !sameForDevices(b, obj.(*corev1.Node)) {
				node(obj)
			}
		}}},
	} {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return fmt.Errorf("watch what nodes offer: %w", err)
		}
	}
	return nil
}

// sameForDevices tells whether a node has changed in nothing that counts here.
func sameForDevices(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// poolsOf returns the pools that an allocation takes devices of.
func poolsOf(a resourcev1.AllocationResult) []string {
	seen := map[string]bool{}
	var out []string
	for _, r := range a.Devices.Results {
		if key := r.Driver + "/" + r.Pool; !seen[key] {
			seen[key] = true
			out = append(out, key)
		}
	}
	return out
}

// published returns the slices about a node.
func (w *Writer) published(node string) ([]*resourcev1.ResourceSlice, error) {
	objs, err := w.slices.ByIndex(indexNode, node)
	if err != nil {
		return nil, fmt.Errorf("find the ResourceSlices of node %s: %w", node, err)
	}
	out := make([]*resourcev1.ResourceSlice, 0, len(objs))
	for _, obj := range objs {
		out = append(out, obj.(*resourcev1.ResourceSlice))
	}
	return out, nil
}

// Lacks tells why a node's CPU driver can't serve a pod that asks for so many CPUs, "" if it can.
func (w *Writer) Lacks(node string, cpus int) string {
	published, err := w.published(node)
	if err != nil {
		return "" // it is seen when the claim is written
	}
	return device.LacksCPUs(published, cpus)
}

// Write gives a pod the devices that it was granted: it writes its claims with their
// allocation, and tells kubelet which container gets what. It can be repeated at any
// time, and makes what an earlier try left right.
func (w *Writer) Write(ctx context.Context, pod *corev1.Pod, g placement.Grant) error {
	if !device.Asks(pod) {
		return nil
	}
	refusal, err := w.Give(ctx, []*corev1.Pod{pod}, map[types.UID]placement.Grant{pod.UID: g})
	switch {
	case err != nil:
		return err
	case refusal.Why != "":
		return fmt.Errorf("%w: %s", ErrWait, refusal.Why)
	case len(device.Classes(pod)) == 0 || w.served(pod) != nil:
		return nil
	}
	m, err := w.machine(g.Node)
	if err != nil {
		return err
	}
	if why := w.changed(m.Node, g.SlurmNode); why != "" {
		return fmt.Errorf("%w: %s", ErrWait, why)
	}
	if err := w.known(pod); err != nil {
		return err
	}
	plan, err := device.Extended(pod, m.Node, device.Grant{Cores: g.Cores, GRES: g.GRES, Taken: w.taken(pod)}, w.Drivers)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWait, err)
	}
	claim, err := w.extended(ctx, pod, plan)
	if err != nil {
		return err
	}
	if err := w.tell(ctx, pod, claim.Name, plan.Mappings); err != nil {
		return errors.Join(err, w.remove(ctx, claim))
	}
	return nil
}

// Stale tells why the devices that a pod was granted can't be known any more, "" where
// they can: Slurm's numbers stand for what was registered, and that has changed since.
func (w *Writer) Stale(pod *corev1.Pod, g placement.Grant) string {
	if !device.Asks(pod) {
		return ""
	}
	m, err := w.machine(g.Node)
	if err != nil || m.Unsettled != "" {
		return ""
	}
	if node, ok := w.View.Node(g.SlurmNode); ok && mirror.DriversAway(&node, m.Node) != "" {
		return ""
	}
	return w.changed(m.Node, g.SlurmNode)
}

// changed tells that a node's devices aren't those that it was registered with.
func (w *Writer) changed(n device.Node, slurmNode string) string {
	node, ok := w.View.Node(slurmNode)
	if !ok {
		return ""
	}
	if m := mirror.MarkOf(&node); m != nil && m.Devices != "" && m.Devices != n.Fingerprint() {
		if n.Unsettled != "" {
			return n.Unsettled
		}
		return fmt.Sprintf("the devices of node %s changed after Slurm was told of them", n.Name)
	}
	return ""
}

// known checks that the classes exist which a pod's extended resources name: without
// them, the API server and kubelet take the resources for something else.
func (w *Writer) known(pod *corev1.Pod) error {
	for _, class := range device.Classes(pod) {
		if _, err := w.classes.Get(class); err != nil {
			return fmt.Errorf("%w: pod %s asks for devices of DeviceClass %s: %w", ErrWait, pod.Name, class, err)
		}
	}
	return nil
}
