package nodeset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Members returns the pods that a NodeSet controls, and those with its labels that nobody does.
func Members(n *v1beta1.NodeSet, pods []corev1.Pod) (own, orphans []corev1.Pod) {
	own = make([]corev1.Pod, 0, len(pods))
	selector := labels.SelectorFromSet(Selector(n.Name))
	for i := range pods {
		if pods[i].Namespace != n.Namespace || !selector.Matches(labels.Set(pods[i].Labels)) {
			continue
		}
		switch o := metav1.GetControllerOfNoCopy(&pods[i]); {
		case o == nil:
			orphans = append(orphans, pods[i])
		case o.UID == n.UID:
			own = append(own, pods[i])
		}
	}
	return own, orphans
}

// RevisionsOf returns a NodeSet's own revisions. They are found by their owner: those of the
// published operator have no labels to find them by.
func RevisionsOf(n *v1beta1.NodeSet, all []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	var out []appsv1.ControllerRevision
	for i := range all {
		if metav1.IsControlledBy(&all[i], n) {
			out = append(out, all[i])
		}
	}
	return out
}

// ClaimsOf returns what of a NodeSet's PersistentVolumeClaims its plan reads, by name.
func ClaimsOf(n *v1beta1.NodeSet, all []metav1.PartialObjectMetadata) map[string]*corev1.PersistentVolumeClaim {
	out := map[string]*corev1.PersistentVolumeClaim{}
	selector := labels.SelectorFromSet(Selector(n.Name))
	for i := range all {
		if m := &all[i].ObjectMeta; m.Namespace == n.Namespace && selector.Matches(labels.Set(m.Labels)) {
			out[m.Name] = &corev1.PersistentVolumeClaim{ObjectMeta: *m}
		}
	}
	return out
}
