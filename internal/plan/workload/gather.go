package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reader reads what tells which pods belong together.
type Reader struct {
	// Objects returns what a key names; pod is one of its pods.
	Objects func(key Key, pod *corev1.Pod) (Objects, error)
	// Owner returns an owner and who controls it, or why it can't be read, as "is gone".
	Owner func(namespace string, ref metav1.OwnerReference) (o Owner, controller *metav1.OwnerReference, why string, err error)
}

// Why an owner can't be read.
const (
	OwnerGone      = "is gone"
	OwnerForbidden = "may not be read by the bridge's scheduler"
	OwnerUnserved  = "is of a kind that the API server doesn't have"
)

// Gather returns the workloads that pods of one key are, without their jobs and the rules of
// their namespace. The pods are put in rank order.
func (k Kinds) Gather(key Key, pods []*corev1.Pod, from Reader) ([]Observed, error) {
	ByRank(pods)
	objects, err := from.Objects(key, pods[0])
	if err != nil {
		return nil, err
	}
	members := make([]Member, 0, len(pods))
	for i, pod := range pods {
		m := Member{Pod: pod}
		// The owner of one pod speaks for all of a PodGroup; that of scheduling.x-k8s.io speaks for itself.
		if i == 0 || key.Kind != KindPodGroup && !(key.Kind == KindCoscheduling && objects.Served) {
			if m, err = from.member(pod); err != nil {
				return nil, err
			}
		}
		members = append(members, m)
	}
	return k.Split(key, members, objects), nil
}

// maxOwners is how far the walk up from a pod goes.
const maxOwners = 32

// member walks up from a pod to the highest controller that can be read.
func (r Reader) member(pod *corev1.Pod) (Member, error) {
	m := Member{Pod: pod}
	ref := metav1.GetControllerOf(pod)
	seen := map[types.UID]bool{}
	for ref != nil && len(m.Owners) < maxOwners && !seen[ref.UID] {
		seen[ref.UID] = true
		owner, next, why, err := r.Owner(pod.Namespace, *ref)
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

// IDs are the UIDs by which jobs name a workload: its own, and its pods'.
func (o Observed) IDs() []types.UID {
	var ids []types.UID
	if o.Group.UID != "" {
		ids = append(ids, o.Group.UID)
	}
	for _, pod := range o.Pods {
		ids = append(ids, pod.UID)
	}
	return ids
}
