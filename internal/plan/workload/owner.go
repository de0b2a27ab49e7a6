package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Owner is an object above a pod.
type Owner struct {
	Kind            schema.GroupKind
	Name            string
	UID             types.UID
	Annotations     map[string]string
	DeadlineSeconds int64
}

// OwnerOf returns what a reference tells of an owner.
func OwnerOf(ref metav1.OwnerReference) Owner {
	return Owner{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), Name: ref.Name, UID: ref.UID}
}

// OwnerOfJob returns a Job as an owner.
func OwnerOfJob(job *batchv1.Job) Owner {
	o := Owner{Kind: groupKindJob, Name: job.Name, UID: job.UID, Annotations: job.Annotations}
	if d := job.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 {
		o.DeadlineSeconds = *d
	}
	return o
}

// Root returns the owner that speaks for a pod: the highest of a recognized kind,
// else the highest that could be read; nil for a pod without owners. The deadline
// of a Job below it is also its own. Owners come from the lowest on.
func (k Kinds) Root(owners []Owner) *Owner {
	if len(owners) == 0 {
		return nil
	}
	root := owners[len(owners)-1]
	for _, o := range slices.Backward(owners) {
		if k.Recognized(o.Kind) {
			root = o
			break
		}
	}
	for _, o := range owners {
		if root.DeadlineSeconds == 0 {
			root.DeadlineSeconds = o.DeadlineSeconds
		}
	}
	return &root
}

// OfPod returns the workload of a pod that belongs to no group. Its owner's
// annotations count; its own do where it has no owner.
func OfPod(pod *corev1.Pod, owner *Owner) Group {
	g := Group{
		Key: Key{Kind: KindPod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		UID: pod.UID, MinCount: 1, Independent: true, JobName: pod.Name, Annotations: pod.Annotations,
	}
	if owner != nil {
		g.JobName, g.Annotations, g.DeadlineSeconds = owner.Name, owner.Annotations, owner.DeadlineSeconds
	}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 && owner == nil {
		g.DeadlineSeconds = *d
	}
	return g
}

// OfPodGroup returns the workload of a PodGroup of scheduling.k8s.io. Annotations of its pods'
// owner go before the group's, and those of its Workload before both. Owner may be nil.
func OfPodGroup(pg PodGroup, owner *Owner, ofWorkload map[string]string) Group {
	g := Group{
		Key: Key{Kind: KindPodGroup, Namespace: pg.Namespace, Name: pg.Name}, UID: pg.UID,
		JobName: pg.Name, MinCount: max(1, pg.MinCount), Independent: pg.MinCount == 0, Whole: pg.Whole, Annotations: map[string]string{},
	}
	if pg.Parent != "" {
		g.UID, g.Missing = "", fmt.Sprintf("%s is a part of CompositePodGroup %s, which can't be started as a whole: "+
			"leave spec.parentCompositePodGroupName out, or make it one PodGroup", g.Key, pg.Parent)
	}
	maps.Copy(g.Annotations, pg.Annotations)
	if owner != nil {
		maps.Copy(g.Annotations, owner.Annotations)
		g.DeadlineSeconds = owner.DeadlineSeconds
	}
	maps.Copy(g.Annotations, ofWorkload)
	return g
}

// OfCoscheduling returns the workload of a PodGroup of scheduling.x-k8s.io.
func OfCoscheduling(pg PodGroup) Group {
	return Group{
		Key: Key{Kind: KindCoscheduling, Namespace: pg.Namespace, Name: pg.Name}, UID: pg.UID,
		JobName: pg.Name, MinCount: max(1, pg.MinCount), MinResources: pg.MinResources, Annotations: pg.Annotations,
	}
}

// OfLeaderWorkerSet returns the workload of one replica of a LeaderWorkerSet. Pods are
// its members, in rank order, of one leader, whose UID tells a replica from the one that it replaces.
func OfLeaderWorkerSet(set LeaderWorkerSet, key Key, leader types.UID, pods []*corev1.Pod) Group {
	g := Group{Key: key, UID: leader, JobName: key.Name, MinCount: set.Size, Annotations: set.Annotations, Shapes: true}
	// Pods of an older revision of the set have its size.
	if n, err := strconv.Atoi(pods[0].Annotations[lwsSize]); err == nil && n > 0 {
		g.MinCount = n
	}
	if !set.WorkersWait || set.Worker == nil {
		return g
	}
	have := map[string]bool{}
	for _, pod := range pods {
		have[pod.Labels[lwsWorkerIndex]] = true
	}
	for i := 1; i < g.MinCount; i++ {
		if index := strconv.Itoa(i); !have[index] {
			g.Reserved = append(g.Reserved, reserve(set, key, index))
		}
	}
	return g
}

// reserve returns a worker as the set will create it, without a UID.
func reserve(set LeaderWorkerSet, key Key, index string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Worker.ObjectMeta.DeepCopy(), Spec: *set.Worker.Spec.DeepCopy()}
	pod.Namespace, pod.Name = key.Namespace, key.Name+"-"+index
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[lwsWorkerIndex] = index
	return pod
}

// OfGang returns the workload of pods that a label of theirs makes a gang below one owner.
func OfGang(key Key, owner Owner) Group {
	g := Group{
		Key: key, UID: owner.UID, JobName: key.Name, Annotations: owner.Annotations, DeadlineSeconds: owner.DeadlineSeconds,
	}
	text := owner.Annotations[v1beta1.AnnotationGangSize]
	n, err := parseCount(text)
	if err != nil {
		g.UID, g.Missing = "", fmt.Sprintf("%s %s/%s doesn't tell how many pods start together: give it the annotation %s",
			owner.Kind.Kind, key.Namespace, owner.Name, v1beta1.AnnotationGangSize)
		if text != "" {
			g.Missing += fmt.Sprintf("; %v", err)
		}
	}
	g.MinCount = max(1, int(n))
	return g
}
