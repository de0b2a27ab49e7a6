package submit

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// placementPatch returns the JSON merge patch that writes an allocation to a pod,
// nil where the pod already has it. The lists in it hold the pod's own entries,
// so it is bound to the version of the pod that it was made from.
func placementPatch(pod *corev1.Pod, a scheduler.Allocation, schedulerName string) []byte {
	meta, spec := map[string]any{}, map[string]any{}
	id := strconv.FormatUint(uint64(a.JobID), 10)
	if pod.Labels[v1beta1.LabelJobID] != id {
		meta["labels"] = map[string]string{v1beta1.LabelJobID: id}
	}
	annotations := map[string]string{}
	if pod.Annotations[v1beta1.AnnotationNode] != a.Node {
		annotations[v1beta1.AnnotationNode] = a.Node
	}
	if cores := tres.FormatIndexes(a.Cores); pod.Annotations[v1beta1.AnnotationCores] != cores {
		annotations[v1beta1.AnnotationCores] = cores
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if !slices.Contains(pod.Finalizers, v1beta1.FinalizerBridge) {
		meta["finalizers"] = append(slices.Clone(pod.Finalizers), v1beta1.FinalizerBridge)
	}
	if tolerations := tolerating(pod.Spec.Tolerations, schedulerName); tolerations != nil {
		spec["tolerations"] = tolerations
	}
	if len(meta) == 0 && len(spec) == 0 {
		return nil
	}
	meta["uid"], meta["resourceVersion"] = pod.UID, pod.ResourceVersion
	body := map[string]any{"metadata": meta}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	patch, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and API types only
	}
	return patch
}

// tolerating returns the tolerations with those of managed nodes added, nil where they are there.
func tolerating(have []corev1.Toleration, schedulerName string) []corev1.Toleration {
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
