package workload

import (
	corev1 "k8s.io/api/core/v1"
)

// Gone tells whether a pod takes nothing of its node any more and never will: its
// containers have ended, or it is deleted and was never started or can't be
// running. A node of nil doesn't exist. Being asked to end isn't being gone: the
// containers have their grace period, and Slurm must keep the node for them.
func Gone(pod *corev1.Pod, node *corev1.Node) bool {
	switch {
	case Terminal(pod):
		return true
	case pod.DeletionTimestamp == nil:
		return false
	case pod.Spec.NodeName == "", node == nil:
		return true
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	forced := pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	return forced && !NodeReady(node)
}

// NodeReady tells whether the kubelet of a node says that it works.
func NodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}
