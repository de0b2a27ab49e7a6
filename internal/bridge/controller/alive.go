package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onlyAlive tells whether an update of a node says no more than that its kubelet lives, as thousands do
// each minute: it differs in the times of its conditions, or in the images that the node has.
func onlyAlive(before, now client.Object) bool {
	b, ok1 := before.(*corev1.Node)
	n, ok2 := now.(*corev1.Node)
	if !ok1 || !ok2 || b.ResourceVersion == n.ResourceVersion {
		return false
	}
	return equality.Semantic.DeepEqual(lasting(b), lasting(n))
}

// lasting returns what of a node doesn't change by itself. It shares the rest with the node.
func lasting(n *corev1.Node) *corev1.Node {
	out := *n
	out.ResourceVersion, out.ManagedFields = "", nil
	out.Status.Images, out.Status.VolumesInUse, out.Status.VolumesAttached = nil, nil, nil
	out.Status.Conditions = slices.Clone(n.Status.Conditions)
	for i := range out.Status.Conditions {
		out.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return &out
}
