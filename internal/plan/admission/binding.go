package admission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Topology tells which topology annotation a pod gets when it is bound to node, which is nil
// where it doesn't exist. Only workers get one, so that their slurmd starts with it.
func Topology(pod *corev1.Pod, node *corev1.Node) (value string, set bool) {
	if pod.Labels[v1beta1.LabelName] != v1beta1.NameSlurmd {
		return "", false
	}
	if node != nil {
		value = node.Annotations[v1beta1.AnnotationTopology]
	}
	was, has := pod.Annotations[v1beta1.AnnotationTopology]
	return value, !has || was != value
}
