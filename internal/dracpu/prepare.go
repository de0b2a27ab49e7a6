package dracpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// node is the driver as kubelet sees it.
type node struct {
	log     logr.Logger
	ledger  *ledger
	state   *state
	metric  *metrics
	changed func() // claims have come or gone
	jobs    *slurmJobs
	kube    kubernetes.Interface
	stop    context.CancelCauseFunc
}

// PrepareResourceClaims gives each claim its CPUs. One that fails hinders no other.
func (n *node) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	log, end := operation(n.log, "prepare resource claims", "claims", len(claims))
	defer end()
	began := time.Now()
	for i, o := range n.prepare(ctx, claims) {
		rc := claims[i]
		n.metric.prepared.WithLabelValues(result(o.err)).Inc()
		if o.err != nil {
			err := fmt.Errorf("prepare claim %s/%s: %w", rc.Namespace, rc.Name, o.err)
			log.Error(err, "A claim can't be prepared")
			out[rc.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		n.metric.seconds.Observe(time.Since(began).Seconds())
		if o.claim == nil {
			out[rc.UID] = kubeletplugin.PrepareResult{}
			continue
		}
		cpus := o.claim.cpus()
		n.metric.size.Observe(float64(cpus.Len()))
		log.Info("A claim is prepared", "claim", o.claim.String(), "uid", o.claim.UID, "cpus", cpus.String(), "took", time.Since(began).String())
		out[rc.UID] = kubeletplugin.PrepareResult{Devices: n.answer(o.claim, rc)}
	}
	n.changed()
	return out, nil
}

func (n *node) prepare(ctx context.Context, claims []*resourceapi.ResourceClaim) []outcome {
	if err := n.canPrepare(); err != nil {
		return slices.Repeat([]outcome{{err: err}}, len(claims))
	}
	out, near := make([]outcome, len(claims)), map[types.UID]cpuset.Set{}
	var able []*resourceapi.ResourceClaim
	var at []int // of each in out
	for i, rc := range claims {
		if cpuset.WantsNear(rc) {
			var err error
			if near[rc.UID], err = n.near(ctx, rc); err != nil {
				out[i].err = err
				continue
			}
		}
		able, at = append(able, rc), append(at, i)
	}
	for i, o := range n.ledger.prepare(near, able...) {
		out[at[i]] = o
	}
	return out
}

// near finds the CPUs near to a claim's other devices, by what their drivers publish of this node.
func (n *node) near(ctx context.Context, rc *resourceapi.ResourceClaim) (cpuset.Set, error) {
	n.ledger.mu.Lock()
	top, name := n.ledger.machine.Topology, n.ledger.machine.Pool
	n.ledger.mu.Unlock()
	list, err := n.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + name})
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("find out where its other devices are, as the claim asks for CPUs near to them: %w", err)
	}
	return top.NearDevices(rc, list.Items), nil
}

func (n *node) canPrepare() error {
	if !n.state.get().synchronized {
		return errors.New("the container runtime is not connected by NRI: the container would start with all CPUs")
	}
	if n.jobs == nil {
		return nil
	}
	// A job may have begun or ended a moment ago.
	_, err := n.ledger.lookAtJobs(*n.jobs)
	return err
}

// answer names a CDI device for each allocated device. A container that names a
// request gets that request's CPUs; one that names the whole claim gets all.
func (n *node) answer(c *claim, rc *resourceapi.ResourceClaim) []kubeletplugin.Device {
	names := c.requests()
	var out []kubeletplugin.Device
	for _, r := range rc.Status.Allocation.Devices.Results {
		if r.Driver != cpuset.DriverName {
			continue
		}
		i := -1
		if len(names) > 1 {
			i = slices.Index(names, r.Request)
		}
		out = append(out, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID,
			CDIDeviceIDs: []string{cdiKind + "=" + cdiName(c.UID, i)},
			Metadata:     &kubeletplugin.DeviceMetadata{Attributes: n.ledger.metadata(c, i, r)},
		})
	}
	return out
}

// metadata is what a container reads about its device: what the slice says, and the CPUs.
func (l *ledger) metadata(c *claim, i int, r resourceapi.DeviceRequestAllocationResult) map[string]resourceapi.DeviceAttribute {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]resourceapi.DeviceAttribute{}
	for _, d := range l.machine.Devices {
		if d.Name != r.Device {
			continue
		}
		for name, a := range d.Attributes {
			out[string(name)] = a
		}
	}
	for _, g := range c.Grants {
		if g.Memory == nil || g.Request != r.Request || g.Device != r.Device {
			continue
		}
		for _, k := range cpuset.MemoryKinds() {
			if n := *k.At(&g.Memory.Memory); n > 0 {
				name := string(k.Capacity)
				out[cpuset.DriverName+"/allocated"+strings.ToUpper(name[8:9])+name[9:]] = resourceapi.DeviceAttribute{IntValue: &n}
			}
		}
		return out
	}
	cpus := c.cpusOf(i)
	if l.machine.Exposure.Mode == cpuset.Grouped {
		out["dra.cpu/allocatedNumCPUs"] = resourceapi.DeviceAttribute{IntValue: new(int64(cpus.Len()))}
	}
	if list := cpus.String(); len(list) <= resourceapi.DeviceAttributeMaxValueLength {
		out["dra.cpu/cpus"] = resourceapi.DeviceAttribute{StringValue: &list}
	}
	return out
}

// UnprepareResourceClaims frees what the claims have. One that isn't known is free.
func (n *node) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	log, end := operation(n.log, "unprepare resource claims", "claims", len(claims))
	defer end()
	uids := make([]types.UID, len(claims))
	for i, rc := range claims {
		uids[i] = rc.UID
	}
	out, failed := map[types.UID]error{}, n.ledger.unprepare(uids...)
	for _, rc := range claims {
		err := failed[rc.UID]
		n.metric.unprepared.WithLabelValues(result(err)).Inc()
		log.Info("A claim is given back", "claim", rc.String(), "uid", rc.UID, "error", err)
		out[rc.UID] = err
	}
	n.changed()
	return out, nil
}

// HandleError hears of what goes wrong in the background.
func (n *node) HandleError(_ context.Context, err error, msg string) {
	var dropped *resourceslice.DroppedFieldsError
	switch {
	case errors.As(err, &dropped):
		err = fmt.Errorf("%w: switch the feature gates %s on, or use cpuDeviceMode: individual", err, strings.Join(dropped.DisabledFeatures(), ", "))
		n.state.set(func(c *conditions) { c.published = err.Error() })
	case !errors.Is(err, kubeletplugin.ErrRecoverable):
		n.stop(fmt.Errorf("%s: %w", msg, err))
	}
	n.log.Error(err, msg)
}

// healthEvery is well within what kubelet waits for.
const healthEvery = 10 * time.Second

// WatchHealthStatus tells kubelet that devices whose CPUs are all online are healthy.
func (n *node) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	again := time.NewTicker(healthEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case reports <- n.ledger.health(time.Now()):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// health: what the machine has is healthy; of what claims have and the machine hasn't any more, it says which CPUs.
func (l *ledger) health(now time.Time) kubeletplugin.DeviceHealthReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	online := l.machine.Topology.All()
	byDevice := map[string]kubeletplugin.DeviceHealth{}
	for _, d := range l.machine.Devices {
		byDevice[d.Name] = kubeletplugin.DeviceHealth{PoolName: l.machine.Pool, DeviceName: d.Name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now}
	}
	for _, c := range l.sorted() {
		for _, g := range c.Grants {
			if gone := g.CPUs.Minus(online); !gone.Empty() && g.Device != "" {
				byDevice[g.Device] = kubeletplugin.DeviceHealth{PoolName: l.machine.Pool, DeviceName: g.Device,
					Health: kubeletplugin.HealthStatusUnhealthy, LastUpdated: now, Message: "CPUs " + gone.String() + " are offline"}
			}
		}
	}
	var out kubeletplugin.DeviceHealthReport
	for _, name := range slices.Sorted(maps.Keys(byDevice)) {
		out.Devices = append(out.Devices, byDevice[name])
	}
	return out
}
