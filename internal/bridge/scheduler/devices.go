package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// Devices writes the devices that Slurm gave to pods. It may call the API server, and
// is used from PreBind on only, when the next pod's cycle has begun.
type Devices interface {
	// Write writes a pod's devices. It can be repeated. wait is true for an error that
	// a change of claims or slices may mend.
	Write(ctx context.Context, pod *corev1.Pod, a Allocation) (wait bool, err error)
	// Release takes back what was written for a pod that isn't bound.
	Release(ctx context.Context, pod *corev1.Pod) error
}

// writtenKey marks a cycle in which a pod's devices were written.
const writtenKey fwk.StateKey = Name + "/devices"

type written struct{}

// Clone implements fwk.StateData.
func (w written) Clone() fwk.StateData { return w }

// PreBindPreFlight spares the pods that get no devices PreBind, where their allocation still stands:
// kube-scheduler writes to each pod that has to wait for a PreBind where it will be bound. What
// PreBind does is nothing that others must wait for.
func (p *Plugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	if !p.writes(pod) && p.stands(pod, node).IsSuccess() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// writes tells whether the pod's devices have to be written before it is bound.
func (p *Plugin) writes(pod *corev1.Pod) bool { return p.devices != nil && device.Asks(pod) }

// PreBind is the last look: a job that ended meanwhile took its pods' allocations with
// it. Then it has the pod's devices written.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if s := p.stands(pod, node); !s.IsSuccess() {
		return s
	}
	if !p.writes(pod) {
		return nil
	}
	a, ok := p.table.Get(pod.UID)
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	}
	state.Write(writtenKey, written{})
	switch wait, err := p.devices.Write(ctx, pod, a); {
	case err == nil:
		return nil
	case wait:
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	default:
		return fwk.AsStatus(err)
	}
}

func (p *Plugin) releaseDevices(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) {
	if p.devices == nil || state == nil {
		return
	}
	if _, err := state.Read(writtenKey); err != nil {
		return
	}
	if err := p.devices.Release(ctx, pod); err != nil {
		klog.FromContext(ctx).Error(err, "Can't take the devices of a pod back; they are written anew with the next try", "pod", klog.KObj(pod))
	}
}

// deviceEvents are the changes that may free what a pod with devices waits for.
func (p *Plugin) deviceEvents() []fwk.ClusterEventWithHint {
	hint := func(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
		// Pods that Slurm has given nothing yet are many, and stay where they are.
		if _, ok := p.table.Get(pod.UID); !ok || !device.Asks(pod) {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update | fwk.Delete}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add}, QueueingHintFn: hint},
	}
}
