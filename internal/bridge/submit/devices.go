package submit

import (
	"context"
	"errors"

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
