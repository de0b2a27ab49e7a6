package why

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

var getOptions = metav1.GetOptions{}

// pod finds the pod that a user means.
func (s Sources) pod(ctx context.Context, target string) (*corev1.Pod, error) {
	kind, name, ok := strings.Cut(target, "/")
	if !ok {
		kind, name = "", target
	}
	kind = strings.ToLower(kind)
	if kind == "" || kind == "pod" || kind == "pods" || kind == "po" {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(ctx, name, getOptions)
		if err == nil {
			return pod, nil
		}
		if kind != "" || !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read pod %s/%s: %w", s.Namespace, name, err)
		}
	}
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", s.Namespace, err)
	}
	var best *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if belongs(pod, kind, name) && (best == nil || weight(pod) > weight(best)) {
			best = pod
		}
	}
	if best == nil {
		return nil, fmt.Errorf("namespace %s has no pod, and no Job or group with pods, that is called %q (another one: --namespace)", s.Namespace, target)
	}
	return best, nil
}

// belongs tells whether a pod is of a Job, of another owner or of a group that a user names; any kind for "".
func belongs(pod *corev1.Pod, kind, name string) bool {
	group := pod.Labels[workload.LabelCoscheduling]
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		group = *g.PodGroupName
	}
	if group == name && (kind == "" || kind == "podgroup" || kind == "podgroups") {
		return true
	}
	for _, o := range pod.OwnerReferences {
		if lower := strings.ToLower(o.Kind); o.Name == name && (kind == "" || kind == lower || kind == lower+"s") {
			return true
		}
	}
	return false
}

// weight is how much a pod of several needs an explanation.
func weight(pod *corev1.Pod) int {
	switch {
	case workload.Live(pod) && pod.Spec.NodeName == "":
		return 3
	case !workload.Terminal(pod) && pod.DeletionTimestamp != nil:
		return 2
	case workload.Live(pod):
		return 1
	}
	return 0
}
