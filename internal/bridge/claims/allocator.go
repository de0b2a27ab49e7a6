package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// features are those of claims and slices that kube-scheduler has by default. Devices that
// are attached while a pod is being bound are left out: nobody here waits for that.
func features() structured.Features {
	return structured.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true,
	}
}

// classLister serves the allocator.
type classLister struct {
	resourcelisters.DeviceClassLister
}

func (c classLister) List() ([]*resourcev1.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}

// machine is a node with what is published of it.
type machine struct {
	device.Node
	kube      *corev1.Node
	published []*resourcev1.ResourceSlice
}

func (w *Writer) machine(name string) (machine, error) {
	kube, err := w.nodes.Get(name)
	if err != nil {
		return machine{}, fmt.Errorf("read node %s: %w", name, err)
	}
	published, err := w.published(name)
	if err != nil {
		return machine{}, err
	}
	return machine{device.Of(kube, published, w.Drivers), kube, published}, nil
}

// allocate chooses devices for claims out of a grant, and out of what Slurm knows nothing of.
// Others hold what they do. It returns nil where that can't be.
func (w *Writer) allocate(ctx context.Context, m machine, g device.Grant, wanted []*resourcev1.ResourceClaim, others []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	results, err := w.choose(ctx, m, g, wanted, others)
	if err != nil || results == nil {
		return nil, err
	}
	var chosen []resourcev1.DeviceRequestAllocationResult
	cpus := false
	for _, r := range results {
		chosen = append(chosen, r.Devices.Results...)
	}
	for _, r := range chosen {
		cpus = cpus || r.Driver == device.DriverCPU
	}
	if !cpus {
		return results, nil
	}
	// Once more, with the cores that are near the devices first.
	near := m.Near(g, chosen)
	if !slices.Equal(near.Cores, g.Cores) {
		if results, err = w.choose(ctx, m, near, wanted, others); err != nil || results == nil {
			return nil, err
		}
	}
	return results, m.Pin(near, results)
}

func (w *Writer) choose(ctx context.Context, m machine, g device.Grant, wanted, others []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	share := m.ShareOf(m.published, g, w.Drivers)
	everywhere, err := w.published(everyNode)
	if err != nil {
		return nil, err
	}
	list := append(offered(m.published, share), everywhere...)
	a, err := structured.NewAllocator(ctx, features(), stateOf(share, others), classLister{w.classes}, list, w.expressions)
	if err != nil {
		return nil, fmt.Errorf("allocate devices of node %s: %w", m.Name, err)
	}
	results, err := a.Allocate(ctx, m.kube, wanted)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return nil, fmt.Errorf("its devices can't serve the claims: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the claims can't be allocated: %w", err)
	}
	return results, nil
}

// offered returns slices with what can be chosen, in the order in which it should be.
func offered(published []*resourcev1.ResourceSlice, share device.Share) []*resourcev1.ResourceSlice {
	out := make([]*resourcev1.ResourceSlice, 0, len(published))
	for _, s := range published {
		id := func(d resourcev1.Device) device.ID {
			return device.ID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
		}
		touched := slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
			_, ordered := share.Order[id(d)]
			return ordered || share.Hidden[id(d)]
		})
		if touched {
			own := *s
			own.Spec.Devices = slices.DeleteFunc(slices.Clone(s.Spec.Devices), func(d resourcev1.Device) bool { return share.Hidden[id(d)] })
			rank := func(d resourcev1.Device) int {
				if at, ok := share.Order[id(d)]; ok {
					return at
				}
				return 1 << 30
			}
			slices.SortStableFunc(own.Spec.Devices, func(a, b resourcev1.Device) int { return cmp.Compare(rank(a), rank(b)) })
			s = &own
		}
		out = append(out, s)
	}
	return out
}

// stateOf tells the allocator what can't be had: what Slurm didn't grant, and what others hold.
// Of groups of CPUs Slurm alone keeps the books.
func stateOf(share device.Share, others []*resourcev1.ResourceClaim) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	make := func(id device.ID) structured.DeviceID { return structured.MakeDeviceID(id.Driver, id.Pool, id.Device) }
	for _, id := range share.Withheld {
		s.AllocatedDevices.Insert(make(id))
	}
	for id, cpus := range share.Spent {
		s.AggregatedCapacity[make(id)] = schedulerapi.ConsumedCapacity{device.CapacityCPU: resource.NewQuantity(int64(cpus), resource.DecimalSI)}
	}
	for _, c := range others {
		for _, r := range c.Status.Allocation.Devices.Results {
			id := device.ID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			_, group := share.Spent[id]
			switch {
			case group || r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID != nil:
				s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(make(id), r.ShareID))
				s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(make(id), r.ConsumedCapacity))
			default:
				s.AllocatedDevices.Insert(make(id))
			}
		}
	}
	return s
}
