package workload

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/slinky-hpc/slinky/api/v1beta1"
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
			if needs[i].same(n) {
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
	// claims are the claims that it names, and the templates.
	claims []string
}

func needOf(pod *corev1.Pod) need {
	n := need{resources: needsOf(pod), selector: pod.Spec.NodeSelector}
	for _, c := range pod.Spec.ResourceClaims {
		switch {
		case c.ResourceClaimName != nil:
			n.claims = append(n.claims, "claim "+*c.ResourceClaimName)
		case c.ResourceClaimTemplateName != nil:
			n.claims = append(n.claims, "template "+*c.ResourceClaimTemplateName)
		}
	}
	for _, t := range pod.Spec.Tolerations {
		// These come with a pod's admission and decide about no node.
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != v1beta1.TaintManagedNode {
			n.tolerations = append(n.tolerations, t)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		n.affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return n
}

func (n need) same(m need) bool {
	return slices.Equal(n.claims, m.claims) && equality.Semantic.DeepEqual(n.resources, m.resources) && maps.Equal(n.selector, m.selector) &&
		equality.Semantic.DeepEqual(n.affinity, m.affinity) && equality.Semantic.DeepEqual(n.tolerations, m.tolerations)
}
