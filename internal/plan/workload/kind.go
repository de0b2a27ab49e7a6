package workload

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind tells what holds the pods of a workload together.
type Kind string

const (
	// KindPod is a pod on its own, whoever owns it.
	KindPod Kind = "Pod"
	// KindPodGroup is a PodGroup of scheduling.k8s.io.
	KindPodGroup Kind = "PodGroup"
	// KindCoscheduling is a PodGroup of scheduling.x-k8s.io.
	KindCoscheduling Kind = "PodGroup.scheduling.x-k8s.io"
	// KindLeaderWorkerSet is one replica, a leader with its workers, of a LeaderWorkerSet.
	KindLeaderWorkerSet Kind = "LeaderWorkerSet"
)

// Labels and annotations of other projects that tell which pods belong together.
const (
	// LabelCoscheduling names the pod's PodGroup of scheduling.x-k8s.io.
	LabelCoscheduling = "scheduling.x-k8s.io/pod-group"

	lwsName        = "leaderworkerset.sigs.k8s.io/name"
	lwsGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	podIndex       = "apps.kubernetes.io/pod-index"
	lwsSize        = "leaderworkerset.sigs.k8s.io/size"
)

// Kinds of owners that count without being configured.
var (
	groupKindPod    = schema.GroupKind{Kind: "Pod"}
	groupKindJob    = schema.GroupKind{Group: "batch", Kind: "Job"}
	groupKindJobSet = schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}
	groupKindLWS    = schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}
)

// OwnerKind is a kind of object that speaks for the pods below it, by configuration.
type OwnerKind struct {
	schema.GroupKind
	// GangLabel, where set, is the label of pods whose value names the gang that a pod belongs to.
	GangLabel string
}

// Kinds are the kinds that workloads can be of. The zero value knows those that need no configuration.
type Kinds struct{ Owners []OwnerKind }

// Recognized tells whether annotations of a kind count before those of a kind that merely can be read.
func (k Kinds) Recognized(kind schema.GroupKind) bool {
	switch kind {
	case groupKindJob, groupKindJobSet, groupKindLWS:
		return true
	}
	for _, o := range k.Owners {
		if o.GroupKind == kind {
			return true
		}
	}
	return false
}

// Gang returns the configured kind of owner that a workload's pods are a gang of.
func (k Kinds) Gang(kind Kind) (OwnerKind, bool) {
	for _, o := range k.Owners {
		if o.GangLabel != "" && gangKind(o) == kind {
			return o, true
		}
	}
	return OwnerKind{}, false
}

func gangKind(o OwnerKind) Kind { return Kind(o.String()) }

// Key identifies a workload among those that exist now. UID is set for pods
// only: the pods of a group name it, and don't know its UID.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
	UID       types.UID
}

func (k Key) String() string {
	kind, group, _ := strings.Cut(string(k.Kind), ".")
	s := kind + " " + k.Namespace + "/" + k.Name
	if group != "" {
		s += " of " + group
	}
	return s
}

// KeyOf returns the workload that a pod belongs to by its own words. Whether it
// really does is for Split to tell, which knows the pod's owners.
func (k Kinds) KeyOf(pod *corev1.Pod) Key {
	key := Key{Namespace: pod.Namespace}
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName != "" {
		key.Kind, key.Name = KindPodGroup, *g.PodGroupName
		return key
	}
	if name := pod.Labels[LabelCoscheduling]; name != "" {
		key.Kind, key.Name = KindCoscheduling, name
		return key
	}
	if metav1.GetControllerOfNoCopy(pod) != nil {
		if set, index := pod.Labels[lwsName], pod.Labels[lwsGroupIndex]; set != "" && index != "" {
			key.Kind, key.Name = KindLeaderWorkerSet, set+"-"+index
			return key
		}
		for _, o := range k.Owners {
			if name := pod.Labels[o.GangLabel]; o.GangLabel != "" && name != "" {
				key.Kind, key.Name = gangKind(o), name
				return key
			}
		}
	}
	key.Kind, key.Name, key.UID = KindPod, pod.Name, pod.UID
	return key
}

// LeaderWorkerSetName returns the name of the LeaderWorkerSet that a pod says it is of.
func LeaderWorkerSetName(pod *corev1.Pod) string { return pod.Labels[lwsName] }

// Reads tells whether an annotation of a pod counts that another project writes.
func Reads(annotation string) bool {
	switch annotation {
	case batchv1.JobCompletionIndexAnnotation, lwsWorkerIndex, podIndex, lwsSize:
		return true
	}
	return false
}
