package submit

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

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
	out, err := s.Kinds.Gather(key, pods, workload.Reader{
		Objects: s.objects,
		Owner: func(namespace string, ref metav1.OwnerReference) (workload.Owner, *metav1.OwnerReference, string, error) {
			return s.owner(ctx, namespace, ref)
		},
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		o := &out[i]
		o.Cluster = s.Index.Cluster()
		if err := s.rule(ctx, &o.Group); err != nil {
			return nil, err
		}
		o.Jobs = s.Index.Naming(o.IDs()...)
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

// owner reads one owner, and returns who controls it, or why it can't be read.
func (s *Submitter) owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (workload.Owner, *metav1.OwnerReference, string, error) {
	o := workload.OwnerOf(ref)
	switch ref.APIVersion + " " + ref.Kind {
	case batchv1.SchemeGroupVersion.String() + " Job":
		job, err := s.Sources.Jobs.Lister().Jobs(namespace).Get(ref.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && job.UID != ref.UID:
			return o, nil, workload.OwnerGone, nil
		case err != nil:
			return o, nil, "", fmt.Errorf("read Job %s/%s: %w", namespace, ref.Name, err)
		}
		return workload.OwnerOfJob(job), metav1.GetControllerOf(job), "", nil
	case "v1 Pod":
		pod, err := s.Sources.Pods.Lister().Pods(namespace).Get(ref.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && pod.UID != ref.UID:
			return o, nil, workload.OwnerGone, nil
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
