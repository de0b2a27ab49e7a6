package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodGroup is a PodGroup of scheduling.k8s.io, in any version of it, or of scheduling.x-k8s.io.
type PodGroup struct {
	metav1.ObjectMeta
	// APIVersion is the one that it was read in.
	APIVersion string
	// MinCount is how many pods must start together, 0 where they are independent of each other.
	MinCount int
	// Whole tells that what ends one of its pods ends all.
	Whole bool
	// Parent is the name of the CompositePodGroup that it is a part of, if any.
	Parent string
	// MinResources is what the pods that start together must have in sum.
	MinResources corev1.ResourceList
	// Workload is the name of the Workload that it was made from, if any.
	Workload string
	// Conditions are those of scheduling.k8s.io.
	Conditions []metav1.Condition
	// Counts are those of scheduling.x-k8s.io.
	Counts Counts
}

func (pg *PodGroup) reference() *corev1.ObjectReference {
	if pg == nil {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: pg.APIVersion, Kind: "PodGroup", Namespace: pg.Namespace, Name: pg.Name, UID: pg.UID}
}

// Conditions of a PodGroup of scheduling.k8s.io that tell whether it has been scheduled.
const (
	conditionScheduledOld = "PodGroupScheduled"
	conditionScheduled    = "PodGroupInitiallyScheduled"
)

// ScheduledCondition returns the type of the condition that tells whether the group has been scheduled.
func (pg PodGroup) ScheduledCondition() string {
	if pg.APIVersion == "scheduling.k8s.io/v1alpha2" {
		return conditionScheduledOld
	}
	return conditionScheduled
}

// PodGroupOf reads a PodGroup of scheduling.k8s.io in v1alpha2, v1alpha3 or v1beta1.
func PodGroupOf(u *unstructured.Unstructured) (PodGroup, error) {
	var in struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			SchedulingPolicy struct {
				Gang *struct {
					MinCount int `json:"minCount"`
				} `json:"gang"`
			} `json:"schedulingPolicy"`
			// DisruptionMode was a word until v1alpha2.
			DisruptionMode any    `json:"disruptionMode"`
			Parent         string `json:"parentCompositePodGroupName"`
			// WorkloadRef came with v1alpha3.
			WorkloadRef struct {
				WorkloadName string `json:"workloadName"`
			} `json:"workloadRef"`
			PodGroupTemplateRef struct {
				Workload struct {
					WorkloadName string `json:"workloadName"`
				} `json:"workload"`
			} `json:"podGroupTemplateRef"`
		} `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := decode(u, &in); err != nil {
		return PodGroup{}, err
	}
	pg := PodGroup{
		ObjectMeta: in.ObjectMeta, APIVersion: u.GetAPIVersion(), Conditions: in.Status.Conditions,
		Workload: or(in.Spec.WorkloadRef.WorkloadName, in.Spec.PodGroupTemplateRef.Workload.WorkloadName),
		Parent:   in.Spec.Parent,
	}
	switch mode := in.Spec.DisruptionMode.(type) {
	case string:
		pg.Whole = mode == "PodGroup"
	case map[string]any:
		_, pg.Whole = mode["all"]
	}
	if gang := in.Spec.SchedulingPolicy.Gang; gang != nil {
		pg.MinCount = max(1, gang.MinCount)
	}
	return pg, nil
}

// CoschedulingOf reads a PodGroup of scheduling.x-k8s.io/v1alpha1.
func CoschedulingOf(u *unstructured.Unstructured) (PodGroup, error) {
	var in struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			MinMember    int                 `json:"minMember"`
			MinResources corev1.ResourceList `json:"minResources"`
		} `json:"spec"`
		Status Counts `json:"status"`
	}
	if err := decode(u, &in); err != nil {
		return PodGroup{}, err
	}
	return PodGroup{
		ObjectMeta: in.ObjectMeta, APIVersion: u.GetAPIVersion(), MinCount: max(1, in.Spec.MinMember),
		MinResources: in.Spec.MinResources, Counts: in.Status,
	}, nil
}

// LeaderWorkerSet is what counts of a LeaderWorkerSet.
type LeaderWorkerSet struct {
	metav1.ObjectMeta
	// Size is how many pods a replica has, its leader among them.
	Size int
	// WorkersWait tells that workers are only created once their leader is ready.
	WorkersWait bool
	Worker      *corev1.PodTemplateSpec
}

// LeaderWorkerSetOf reads a LeaderWorkerSet of leaderworkerset.x-k8s.io/v1.
func LeaderWorkerSetOf(u *unstructured.Unstructured) (LeaderWorkerSet, error) {
	var in struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			StartupPolicy        string `json:"startupPolicy"`
			LeaderWorkerTemplate struct {
				Size           *int                    `json:"size"`
				WorkerTemplate *corev1.PodTemplateSpec `json:"workerTemplate"`
			} `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
	if err := decode(u, &in); err != nil {
		return LeaderWorkerSet{}, err
	}
	set := LeaderWorkerSet{
		ObjectMeta: in.ObjectMeta, Size: 1, WorkersWait: in.Spec.StartupPolicy == "LeaderReady",
		Worker: in.Spec.LeaderWorkerTemplate.WorkerTemplate,
	}
	if n := in.Spec.LeaderWorkerTemplate.Size; n != nil && *n > 0 {
		set.Size = *n
	}
	return set, nil
}

func decode(u *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, to); err != nil {
		return fmt.Errorf("read %s %s/%s of %s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), u.GetAPIVersion(), err)
	}
	return nil
}
