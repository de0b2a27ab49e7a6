package submit

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// claimsOf are the claims that a pod without a node names.
func (s *Submitter) claimsOf(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !s.ours(pod) || pod.Spec.NodeName != "" {
		return nil, nil
	}
	var out []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			out = append(out, pod.Namespace+"/"+*name)
		}
	}
	return out, nil
}

// deviceHandlers look again at the pods that wait for claims, classes or devices.
func (s *Submitter) deviceHandlers(d resourceinformers.Interface) []watched {
	class := func(any) { s.nodesChanged() }
	return []watched{
		{d.ResourceClaims().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: s.claimSeen,
			UpdateFunc: func(before, now any) {
				b, ok1 := before.(*resourcev1.ResourceClaim)
				c, ok2 := now.(*resourcev1.ResourceClaim)
				if ok1 && ok2 && (b.Status.Allocation == nil) == (c.Status.Allocation == nil) &&
					equality.Semantic.DeepEqual(b.Status.ReservedFor, c.Status.ReservedFor) {
					return
				}
				s.claimSeen(now)
			},
			DeleteFunc: func(obj any) {
				if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				s.claimSeen(obj)
			},
		}},
		{d.ResourceSlices().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.retryBlocked() },
			UpdateFunc: func(_, _ any) { s.retryBlocked() },
			DeleteFunc: func(any) { s.retryBlocked() },
		}},
		{d.DeviceClasses().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: class, UpdateFunc: func(_, now any) { class(now) }, DeleteFunc: class,
		}},
	}
}

func (s *Submitter) claimSeen(obj any) {
	c, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return
	}
	pods, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexClaims, c.Namespace+"/"+c.Name)
	if err != nil {
		return // the index is there from the beginning on
	}
	for _, obj := range pods {
		s.queue.Add(s.Kinds.KeyOf(obj.(*corev1.Pod)))
	}
}
