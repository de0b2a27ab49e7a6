package submit

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/adopt"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// placementPatch returns the JSON merge patch that writes an allocation to a pod,
// nil where the pod already has it. Told are more annotations about it. The lists in it hold the pod's own entries,
// so it is bound to the version of the pod that it was made from.
func placementPatch(pod *corev1.Pod, a scheduler.Allocation, told map[string]string, schedulerName string) []byte {
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
	for key, value := range told {
		if have, ok := pod.Annotations[key]; !ok || have != value {
			annotations[key] = value
		}
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if !slices.Contains(pod.Finalizers, v1beta1.FinalizerBridge) {
		meta["finalizers"] = append(slices.Clone(pod.Finalizers), v1beta1.FinalizerBridge)
	}
	if tolerations := adopt.Tolerating(pod.Spec.Tolerations, schedulerName); tolerations != nil {
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
