package observe

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writtenFor is how long a write is believed that the informers don't show.
const writtenFor = 10 * time.Second

// Written remembers the pods that were made and deleted until the informers show it, so that
// nobody does it twice. It is safe for concurrent use.
type Written struct {
	mu      sync.Mutex
	made    map[types.UID]written
	deleted map[types.UID]time.Time
}

type written struct {
	pod *corev1.Pod
	at  time.Time
}

// Made remembers a pod as the API server has answered it.
func (w *Written) Made(pod *corev1.Pod, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made == nil {
		w.made = map[types.UID]written{}
	}
	w.made[pod.UID] = written{pod, now}
}

// Deleted remembers that a pod is on its way out.
func (w *Written) Deleted(uid types.UID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deleted == nil {
		w.deleted = map[types.UID]time.Time{}
	}
	w.deleted[uid] = now
	delete(w.made, uid)
}

// Gone forgets a pod that an informer has seen end: also one that came and went
// between two looks of Apply, which would wait for it in vain.
func (w *Written) Gone(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.made, uid)
	delete(w.deleted, uid)
}

// Apply brings the pods of an owner, as the informers have them, to what was written since.
func (w *Written) Apply(owner types.UID, pods []corev1.Pod, now time.Time) []corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made)+len(w.deleted) == 0 {
		return pods
	}
	names := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		names[pod.Name] = true
		delete(w.made, pod.UID)
		if at, deleted := w.deleted[pod.UID]; deleted {
			if pod.DeletionTimestamp == nil {
				pod.DeletionTimestamp = &metav1.Time{Time: at}
			} else {
				delete(w.deleted, pod.UID)
			}
		}
	}
	for uid, m := range w.made {
		o := metav1.GetControllerOf(m.pod)
		switch {
		case now.Sub(m.at) > writtenFor:
			delete(w.made, uid)
		case o != nil && o.UID == owner && !names[m.pod.Name]:
			pods = append(pods, *m.pod)
		}
	}
	for uid, at := range w.deleted {
		if now.Sub(at) > writtenFor {
			delete(w.deleted, uid)
		}
	}
	return pods
}
