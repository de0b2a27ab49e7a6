package workload

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// Owner is the object above a pod that speaks for it.
type Owner struct {
	Name            string
	Annotations     map[string]string
	DeadlineSeconds int64
}

// OwnerOfJob returns a Job as an owner.
func OwnerOfJob(job *batchv1.Job) *Owner {
	o := &Owner{Name: job.Name, Annotations: job.Annotations}
	if d := job.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 {
		o.DeadlineSeconds = *d
	}
	return o
}

// OfPod returns the workload of a pod that belongs to no group. Its owner's
// annotations count; its own do where it has no owner.
func OfPod(pod *corev1.Pod, owner *Owner) Group {
	g := Group{Key: KeyOf(pod), UID: pod.UID, MinCount: 1, JobName: pod.Name, Annotations: pod.Annotations}
	if owner != nil {
		g.JobName, g.Annotations, g.DeadlineSeconds = owner.Name, owner.Annotations, owner.DeadlineSeconds
	}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 && owner == nil {
		g.DeadlineSeconds = *d
	}
	return g
}

// OfPodGroup returns the workload of a PodGroup. Annotations of its pods' owner
// go before the group's, and those of its Workload before both. Owner and w may be nil.
func OfPodGroup(pg *schedulingv1beta1.PodGroup, owner *Owner, w *schedulingv1beta1.Workload) Group {
	g := Group{
		Key: Key{Kind: KindPodGroup, Namespace: pg.Namespace, Name: pg.Name}, UID: pg.UID,
		JobName: pg.Name, MinCount: 1, Annotations: map[string]string{},
	}
	if gang := pg.Spec.SchedulingPolicy.Gang; gang != nil {
		g.MinCount = max(1, int(gang.MinCount))
	} else {
		g.Independent = true
	}
	maps.Copy(g.Annotations, pg.Annotations)
	if owner != nil {
		maps.Copy(g.Annotations, owner.Annotations)
		g.DeadlineSeconds = owner.DeadlineSeconds
	}
	if w != nil {
		maps.Copy(g.Annotations, w.Annotations)
	}
	return g
}
