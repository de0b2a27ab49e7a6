package submit

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// maxOwners is how far the walk up from a pod goes.
const maxOwners = 32

// podsOf returns the pods of a key, in a slice of the caller's own.
func (s *Submitter) podsOf(key workload.Key) ([]*corev1.Pod, error) {
	objs, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexWorkload, indexKey(key))
	if err != nil {
		return nil, fmt.Errorf("find pods of %s: %w", key, err)
	}
	out := make([]*corev1.Pod, len(objs))
	for i, obj := range objs {
		out[i] = obj.(*corev1.Pod)
	}
	return out, nil
}

// observe collects what is known about the workloads of one key.
func (s *Submitter) observe(ctx context.Context, key workload.Key) ([]workload.Observed, error) {
	pods, err := s.podsOf(key)
	if err != nil || len(pods) == 0 {
		return nil, err
	}
	for _, pod := range pods {
		s.recall(pod)
	}
	workload.ByRank(pods)
	objects, err := s.objects(key, pods[0])
	if err != nil {
		return nil, err
	}
	members := make([]workload.Member, 0, len(pods))
	for i, pod := range pods {
		m := workload.Member{Pod: pod}
		// The owner of one pod speaks for all of a PodGroup; that of scheduling.x-k8s.io speaks for itself.
		if i == 0 || key.Kind != workload.KindPodGroup && !(key.Kind == workload.KindCoscheduling && objects.Served) {
			if m, err = s.member(ctx, pod); err != nil {
				return nil, err
			}
		}
		members = append(members, m)
	}
	out := s.Kinds.Split(key, members, objects)
	for i := range out {
		o := &out[i]
		o.Cluster = s.Index.Cluster()
		if err := s.rule(ctx, &o.Group); err != nil {
			return nil, err
		}
		var ids []types.UID
		if o.Group.UID != "" {
			ids = append(ids, o.Group.UID)
		}
		for _, pod := range o.Pods {
			ids = append(ids, pod.UID)
		}
		o.Jobs = s.Index.Naming(ids...)
	}
	return out, nil
}

// objects reads what a key names.
func (s *Submitter) objects(key workload.Key, pod *corev1.Pod) (o workload.Objects, err error) {
	c := s.Sources.Custom
	switch key.Kind {
	case workload.KindPodGroup:
		if o.PodGroup, o.Served, err = get[workload.PodGroup](c.podGroups, key.Namespace, key.Name); err != nil || o.PodGroup == nil {
			return o, err
		}
		if o.PodGroup.Workload == "" {
			return o, nil
		}
		w, _, err := get[metav1.PartialObjectMetadata](c.workloads, key.Namespace, o.PodGroup.Workload)
		if w != nil {
			o.Workload = w.Annotations
		}
		return o, err
	case workload.KindCoscheduling:
		o.PodGroup, o.Served, err = get[workload.PodGroup](c.coscheduling, key.Namespace, key.Name)
	case workload.KindLeaderWorkerSet:
		o.Set, o.Served, err = get[workload.LeaderWorkerSet](c.sets, key.Namespace, workload.LeaderWorkerSetName(pod))
	}
	return o, err
}

// member walks up from a pod to the highest controller that can be read.
func (s *Submitter) member(ctx context.Context, pod *corev1.Pod) (workload.Member, error) {
	m := workload.Member{Pod: pod}
	ref := metav1.GetControllerOf(pod)
	seen := map[types.UID]bool{}
	for ref != nil && len(m.Owners) < maxOwners && !seen[ref.UID] {
		seen[ref.UID] = true
		owner, next, why, err := s.owner(ctx, pod.Namespace, *ref)
		if err != nil {
			return m, err
		}
		if why != "" {
			m.Unread, m.Why = &owner, why
			return m, nil
		}
		m.Owners = append(m.Owners, owner)
		ref = next
	}
	return m, nil
}

// owner reads one owner, and returns who controls it, or why it can't be read.
func (s *Submitter) owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (workload.Owner, *metav1.OwnerReference, string, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	o := workload.Owner{Kind: kind, Name: ref.Name, UID: ref.UID}
	switch ref.APIVersion + " " + ref.Kind {
	case batchv1.SchemeGroupVersion.String() + " Job":
		job, err := s.Sources.Jobs.Lister().Jobs(namespace).Get(ref.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && job.UID != ref.UID:
			return o, nil, whyGone, nil
		case err != nil:
			return o, nil, "", fmt.Errorf("read Job %s/%s: %w", namespace, ref.Name, err)
		}
		return workload.OwnerOfJob(job), metav1.GetControllerOf(job), "", nil
	case "v1 Pod":
		pod, err := s.Sources.Pods.Lister().Pods(namespace).Get(ref.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && pod.UID != ref.UID:
			return o, nil, whyGone, nil
		case err != nil:
			return o, nil, "", fmt.Errorf("read pod %s/%s: %w", namespace, ref.Name, err)
		}
		o.Annotations = pod.Annotations
		return o, metav1.GetControllerOf(pod), "", nil
	}
	meta, why, err := s.Sources.Owners.Owner(ctx, namespace, ref)
	if err != nil || why != "" {
		return o, nil, why, err
	}
	o.Annotations = meta.Annotations
	return o, metav1.GetControllerOf(&meta), "", nil
}
