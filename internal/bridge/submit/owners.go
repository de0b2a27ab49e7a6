package submit

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// ownerTTL is how long an owner's metadata is taken as read: its annotations may change.
const ownerTTL = 30 * time.Second

// MetadataOwners reads owners from the API server and remembers them for a while.
type MetadataOwners struct {
	client metadata.Interface
	now    func() time.Time

	mu   sync.Mutex
	seen map[types.UID]seenOwner
}

type seenOwner struct {
	meta metav1.ObjectMeta
	ok   bool
	at   time.Time
}

// NewMetadataOwners returns a reader of owners.
func NewMetadataOwners(c metadata.Interface, now func() time.Time) *MetadataOwners {
	return &MetadataOwners{client: c, now: now, seen: map[types.UID]seenOwner{}}
}

// ownerResources are the kinds that pods and their owners are controlled by. The
// walk ends at any other kind.
func ownerResource(ref metav1.OwnerReference) (schema.GroupVersionResource, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupVersionResource{}, false
	}
	switch gv.Group + "/" + ref.Kind {
	case "apps/ReplicaSet":
		return gv.WithResource("replicasets"), true
	case "apps/Deployment":
		return gv.WithResource("deployments"), true
	case "apps/StatefulSet":
		return gv.WithResource("statefulsets"), true
	}
	return schema.GroupVersionResource{}, false
}

// Owner returns the owner's metadata. A kind that isn't known here, an owner that
// is gone and one that may not be read end the walk; any other failure is an error,
// since a guess could split a group.
func (o *MetadataOwners) Owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.ObjectMeta, bool, error) {
	resource, ok := ownerResource(ref)
	if !ok {
		return metav1.ObjectMeta{}, false, nil
	}
	if s, ok := o.recall(ref.UID); ok {
		return s.meta, s.ok, nil
	}
	s := seenOwner{at: o.now()}
	obj, err := o.client.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.meta, s.ok = obj.ObjectMeta, obj.UID == ref.UID
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
	default:
		return s.meta, false, fmt.Errorf("read %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[ref.UID] = s
	return s.meta, s.ok, nil
}

// recall returns what was read lately, and drops what was read long ago.
func (o *MetadataOwners) recall(uid types.UID) (seenOwner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.seen[uid]
	if ok && o.now().Sub(s.at) < ownerTTL {
		return s, true
	}
	if !ok {
		return s, false
	}
	for id, s := range o.seen {
		if o.now().Sub(s.at) >= ownerTTL {
			delete(o.seen, id)
		}
	}
	return seenOwner{}, false
}
