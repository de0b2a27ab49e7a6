package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// foreignGroup tells of a group that a pod names in the way of an API which the
// bridge doesn't read. To start the pod without the others would be worse than to refuse it.
func foreignGroup(pod *corev1.Pod) []string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil || pod.Labels[LabelCoscheduling] != "" {
		return nil
	}
	const instead = "; name a PodGroup of scheduling.k8s.io in spec.schedulingGroup, or one of scheduling.x-k8s.io in the label " + LabelCoscheduling
	for _, key := range []string{"pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"} {
		if name := pod.Labels[key]; name != "" {
			return []string{fmt.Sprintf("the pod group %q of the label %s%s", name, key, instead)}
		}
	}
	for _, key := range []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"} {
		if name := pod.Annotations[key]; name != "" {
			return []string{fmt.Sprintf("the pod group %q of the annotation %s%s", name, key, instead)}
		}
	}
	return nil
}
