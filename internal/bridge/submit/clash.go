package submit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// indexPlaced finds the pods of the bridge that are on a node.
const indexPlaced = "slinky-placed-pods-by-node"

// clashRetry is how soon to look again whether a pod has made room.
const clashRetry = 250 * time.Millisecond

func (s *Submitter) placedOn(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) && pod.Spec.NodeName != "" && !workload.Terminal(pod) {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// clash returns why a pod can't have its node yet, "" if it can. Slurm gives cores
// away in the moment in which it takes them, by preemption, at a time limit or
// after it forgot a job, while the pod that had them has its grace time to end.
func (s *Submitter) clash(pod *corev1.Pod, a scheduler.Allocation) string {
	others, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexPlaced, a.Node)
	if err != nil {
		return ""
	}
	for _, obj := range others {
		other := obj.(*corev1.Pod)
		if other.UID == pod.UID || other.Labels[v1beta1.LabelJobID] == fmt.Sprint(a.JobID) {
			continue
		}
		cores, err := tres.ParseIndexes(other.Annotations[v1beta1.AnnotationCores])
		if err != nil {
			continue
		}
		if slices.ContainsFunc(cores, func(c int) bool { return slices.Contains(a.Cores, c) }) {
			return fmt.Sprintf("Slurm job %d has node %s, where pod %s/%s, whose cores Slurm took, has not ended yet", a.JobID, a.Node, other.Namespace, other.Name)
		}
	}
	return ""
}
