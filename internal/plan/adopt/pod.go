// Package adopt plans what admission does with pods and with the objects that own them: what
// is added to a pod that Slurm is to place, and what is refused, with a sentence that says why.
package adopt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/environment"
	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Facts are what counts for an object that comes in.
type Facts struct {
	// SchedulerName is the bridge's.
	SchedulerName string
	// Managed tells whether the bridge adopts all pods of the namespace.
	Managed bool
	Rules   policy.Rules
	// Environment lists what containers are told where the pod doesn't say it.
	Environment string
}

// Ours tells whether the bridge answers for a pod: all of managed namespaces but those that
// belong to one node each, and whoever asks for its scheduler.
func (f Facts) Ours(pod *corev1.Pod) bool {
	return !ofOneNode(pod) && (f.Managed || pod.Spec.SchedulerName == f.SchedulerName)
}

// ofOneNode tells whether a pod is made for one node, which no scheduler may change.
func ofOneNode(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1"
}

// Pod makes a new pod what it must be for Slurm to place it.
func Pod(pod *corev1.Pod, f Facts) {
	if !f.Ours(pod) {
		return
	}
	// Who names a node gets by all schedulers, and by Slurm.
	pod.Spec.NodeName = ""
	if pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		pod.Spec.SchedulerName = f.SchedulerName
	}
	if pod.Spec.SchedulerName != f.SchedulerName {
		return
	}
	if added := Tolerating(pod.Spec.Tolerations, f.SchedulerName); added != nil {
		pod.Spec.Tolerations = added
	}
	if bare(pod) {
		pod.Annotations = f.Rules.Complete(pod.Annotations)
	}
	text, asked := pod.Annotations[v1beta1.AnnotationEnvironment]
	if !asked {
		text = f.Environment
	}
	// A pod that says it wrongly is refused by Check.
	if groups, err := environment.Parse(text); err == nil {
		environment.Add(pod, groups, asked)
	}
}

// bare tells whether a pod's own annotations count: whether nothing above it speaks for it.
func bare(pod *corev1.Pod) bool {
	return metav1.GetControllerOf(pod) == nil && workload.Kinds{}.KeyOf(pod).Kind == workload.KindPod
}

// Tolerating returns tolerations with those of managed nodes added, nil where they are there.
func Tolerating(have []corev1.Toleration, schedulerName string) []corev1.Toleration {
	out := slices.Clone(have)
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule} {
		if slices.ContainsFunc(out, func(t corev1.Toleration) bool { return toleratesManaged(t, schedulerName, effect) }) {
			continue
		}
		out = append(out, corev1.Toleration{
			Key: v1beta1.TaintManagedNode, Operator: corev1.TolerationOpEqual, Value: schedulerName, Effect: effect,
		})
	}
	if len(out) == len(have) {
		return nil
	}
	return out
}

func toleratesManaged(t corev1.Toleration, schedulerName string, effect corev1.TaintEffect) bool {
	if t.TolerationSeconds != nil || (t.Effect != "" && t.Effect != effect) {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return t.Key == "" || t.Key == v1beta1.TaintManagedNode
	case corev1.TolerationOpEqual, "":
		return t.Key == v1beta1.TaintManagedNode && t.Value == schedulerName
	}
	return false
}
