package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Components splits the pods of a job into those of its components: one for each
// need of nodes, in the order in which they come. It is all of them in one where
// the group asks for nodes of one kind.
func Components(g Group, pods []*corev1.Pod) [][]*corev1.Pod {
	if !g.Shapes {
		return [][]*corev1.Pod{pods}
	}
	var needs []need
	var out [][]*corev1.Pod
	for _, pod := range pods {
		n := needOf(pod)
		at := len(needs)
		for i := range needs {
			if equality.Semantic.DeepEqual(needs[i], n) {
				at = i
				break
			}
		}
		if at == len(needs) {
			needs, out = append(needs, n), append(out, nil)
		}
		out[at] = append(out[at], pod)
	}
	return out
}

// need is what decides which nodes suit a pod.
type need struct {
	resources   corev1.ResourceList
	selector    map[string]string
	affinity    *corev1.NodeSelector
	tolerations []corev1.Toleration
}

func needOf(pod *corev1.Pod) need {
	n := need{resources: needsOf(pod), selector: pod.Spec.NodeSelector, tolerations: pod.Spec.Tolerations}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		n.affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return n
}
