package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/bridge/claims"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Devices knows whether what Slurm granted still stands for devices.
type Devices interface {
	// Stale tells why it doesn't, "" if it does.
	Stale(pod *corev1.Pod, g placement.Grant) string
	// Lacks tells why a node's CPU driver can't serve a pod that asks for so many CPUs, "" if it can.
	Lacks(node string, cpus int) string
	// Ask finds out what the claims of the pods of a job take, and which nodes can serve them.
	Ask(ctx context.Context, pods []*corev1.Pod, nodes []string) (claims.Asked, error)
	// Served tells whether a device class serves an extended resource of a pod.
	Served(pod *corev1.Pod, name corev1.ResourceName) bool
	// Give allocates the claims of pods from what Slurm granted, or tells why that can't be.
	Give(ctx context.Context, pods []*corev1.Pod, granted map[types.UID]placement.Grant) (claims.Refusal, error)
	// Loosen takes back what claims got for pods that have no job any more.
	Loosen(ctx context.Context, pods []*corev1.Pod) error
}

// served leaves out the nodes whose CPU driver can't serve the pods. What other drivers
// have Slurm knows, by the resources that nodes are registered with.
func (s *Submitter) served(f workload.Feasibility, pods []*corev1.Pod) workload.Feasibility {
	most := 0
	for _, pod := range pods {
		most = max(most, device.CPUsOf(pod))
	}
	if s.Devices == nil || most == 0 {
		return f
	}
	return f.Without(func(n *workload.NodeFacts) string { return s.Devices.Lacks(n.Node.Name, most) })
}

// claimed leaves out the nodes that can't serve the claims of the pods, and adds what these
// take. missing is why nothing can be asked for yet.
func (s *Submitter) claimed(ctx context.Context, f workload.Feasibility, pods []*corev1.Pod) (out workload.Feasibility, missing string, err error) {
	if s.Devices == nil || !slices.ContainsFunc(pods, device.Asks) {
		return f, "", nil
	}
	asked, err := s.Devices.Ask(ctx, pods, f.Nodes())
	if err != nil || asked.Missing != "" {
		return f, asked.Missing, err
	}
	f = f.Without(func(n *workload.NodeFacts) string { return asked.Lacks[n.Node.Name] })
	f.Claimed, f.Served = asked.Takes, s.Devices.Served
	f.OneNode = f.OneNode || asked.OneNode
	return f, "", nil
}

// loosen takes back what claims got for pods whose job is gone.
func (s *Submitter) loosen(ctx context.Context, step workload.Step) error {
	switch step.Kind {
	case workload.StepSubmit, workload.StepWait, workload.StepQueued:
	default:
		return nil
	}
	if s.Devices == nil || !slices.ContainsFunc(step.Pods, device.Asks) {
		return nil
	}
	for _, pod := range step.Pods {
		s.Table.Delete(pod.UID) // it may not be bound with what others get
		if pod.Spec.NodeName == "" {
			s.vacate(pod.UID)
		}
	}
	return s.Devices.Loosen(ctx, step.Pods)
}

// withDevices allocates the claims of the pods of a job, all or none. It returns the node
// where that can't be, and why.
func (s *Submitter) withDevices(ctx context.Context, step workload.Step, placed map[types.UID]placement.Grant) (claims.Refusal, error) {
	if s.Devices == nil || !slices.ContainsFunc(step.Pods, device.Asks) {
		return claims.Refusal{}, nil
	}
	return s.Devices.Give(ctx, step.Pods, placed)
}

// withoutDevices tells pods that their claims can't be allocated. The node is given back like
// one that Kubernetes refuses.
func (s *Submitter) withoutDevices(ctx context.Context, step workload.Step, placed map[types.UID]placement.Grant, r claims.Refusal) (time.Duration, error) {
	for _, pod := range step.Pods {
		if placed[pod.UID].Node == r.Node {
			s.refusals.note(pod.UID, r.Node, r.Why, s.Now())
		}
	}
	_, err := s.hold(ctx, step.Pods, held{reason: reasonNoDevices, text: fmt.Sprintf("Slurm job %d has node %s, but %s", step.Job.ID, r.Node, r.Why), warn: true})
	return clashRetry, err
}

// stale tells why a job is of no use although it runs: it was given devices by numbers
// that stand for others by now. A job with a pod that already runs is left alone.
func (s *Submitter) stale(step workload.Step, placed map[types.UID]placement.Grant) string {
	if s.Devices == nil || len(step.Pods) < len(step.Mark.Pods) {
		return ""
	}
	for _, pod := range step.Pods {
		if why := s.Devices.Stale(pod, placed[pod.UID]); why != "" {
			return why
		}
	}
	return ""
}

// writer writes the claims of pods for the plugin.
type writer struct{ *claims.Writer }

// Write implements scheduler.Devices.
func (w writer) Write(ctx context.Context, pod *corev1.Pod, a scheduler.Allocation) (wait bool, err error) {
	err = w.Writer.Write(ctx, pod, a.Grant)
	return errors.Is(err, claims.ErrWait), err
}
