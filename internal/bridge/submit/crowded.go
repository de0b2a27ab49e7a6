package submit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// crowded returns a node of a job on which Kubernetes' own count has no room for all of the
// job's pods there, and what is short. Slurm doesn't know what pods that no job covers, such as daemons, take of a
// node; kube-scheduler would refuse the last pods of a gang when the first are bound.
func (s *Submitter) crowded(step workload.Step, placed map[types.UID]placement.Grant) (node, why string) {
	mine := map[string][]*corev1.Pod{}
	for _, pod := range step.Pods {
		name := placed[pod.UID].Node
		mine[name] = append(mine[name], pod)
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		n, err := s.Sources.Nodes.Lister().Get(name)
		if err != nil {
			continue // Kubernetes' filters say so
		}
		free := n.Status.Allocatable
		taken, err := s.used(name)
		if err != nil {
			continue
		}
		add(taken, s.occupants.before(name, mine[name], step.Job.ID))
		for _, pod := range mine[name] {
			add(taken, requestsOf(pod))
		}
		for _, what := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
			have, counted := free[what]
			if want := taken[what]; counted && have.Cmp(want) < 0 {
				return name, fmt.Sprintf("too little %s there: %s of %s would be asked for", what, want.String(), have.String())
			}
		}
	}
	return "", ""
}

// requestsOf returns what Kubernetes counts of a pod, with the pod itself.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	out := resource.PodRequests(pod, resource.PodResourcesOptions{})
	out[corev1.ResourcePods] = *apiresource.NewQuantity(1, apiresource.DecimalSI)
	return out
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}
