// Package scheduler is the bridge's plugin for kube-scheduler. It looks pods up in
// a table and does nothing else: no call to Slurm or to the API server is made in
// a scheduling cycle.
package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Name is the plugin's name in a scheduler profile.
const Name = "SlurmBridge"

// Plugin lets a pod through to the node that Slurm chose for it, and to no other.
type Plugin struct {
	table   *Table
	devices Devices
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.PostBindPlugin    = (*Plugin)(nil)
)

// New returns a plugin that reads the table, and has the devices of pods written
// outside of the scheduling cycle. devices may be nil where pods get none.
func New(table *Table, devices Devices) *Plugin { return &Plugin{table: table, devices: devices} }

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// PreEnqueue keeps a pod out of the queue until Slurm has given it a node and the
// pod itself says so: only then does it tolerate the node's taint.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	a, ok := p.table.Get(pod.UID)
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	}
	if pod.Annotations[v1beta1.AnnotationNode] != a.Node {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("Slurm job %d gives node %s, which is being written to the pod", a.JobID, a.Node))
	}
	return nil
}

// EventsToRegister asks to look at a held pod again when the pod itself has
// changed. All else that frees a pod is announced by the submitter.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return append(p.deviceEvents(), fwk.ClusterEventWithHint{
		Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel | fwk.UpdatePodToleration},
		QueueingHintFn: func(_ klog.Logger, pod *corev1.Pod, _, changed any) (fwk.QueueingHint, error) {
			now, ok := changed.(*corev1.Pod)
			if !ok || now.UID != pod.UID || !p.PreEnqueue(context.Background(), now).IsSuccess() {
				return fwk.QueueSkip, nil
			}
			return fwk.Queue, nil
		},
	}), nil
}

// PreFilter narrows the nodes to the one that Slurm chose.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	a, ok := p.table.Get(pod.UID)
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(a.Node)}, nil
}

// PreFilterExtensions returns nil: other pods don't change what Slurm granted.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter passes the node that Slurm chose.
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	a, ok := p.table.Get(pod.UID)
	switch {
	case !ok:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	case node.Node() == nil || node.Node().Name != a.Node:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Slurm gave another node")
	}
	return nil
}

// PostFilter says why a pod can't use the node that Slurm gave it, to its owner and to who
// can ask Slurm for another.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	a, ok := p.table.Get(pod.UID)
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	}
	why := "Kubernetes doesn't know the node"
	if s := nodes.Get(a.Node); s != nil && s.Message() != "" {
		why = s.Message()
	}
	p.table.refuse(Refusal{pod, a.Node, why})
	return nil, fwk.NewStatus(fwk.Unschedulable,
		fmt.Sprintf("Slurm job %d gives node %s, which Kubernetes can't use for the pod now: %s", a.JobID, a.Node, why))
}

// Reserve makes sure that the allocation still stands.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	return p.stands(pod, node)
}

// Unreserve takes the devices back where the pod wasn't bound after they were
// written. The rest is Slurm's, and stays.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	p.releaseDevices(ctx, state, pod)
}

// PostBind forgets the pod: from now on its spec names the node.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.table.Delete(pod.UID)
}

func (p *Plugin) stands(pod *corev1.Pod, node string) *fwk.Status {
	a, ok := p.table.Get(pod.UID)
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.table.Why(pod.UID))
	}
	if a.Node != node {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("Slurm moved the pod from node %s to %s", node, a.Node))
	}
	return nil
}
