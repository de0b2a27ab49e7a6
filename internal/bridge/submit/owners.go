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

	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

const (
	// ownerTTL is how long an owner's metadata is taken as read: its annotations may change.
	ownerTTL = 30 * time.Second
	// resourceTTL is how long it is taken as known which resource holds a kind that isn't one of those below.
	resourceTTL = 2 * time.Minute
)

// MetadataOwners reads owners from the API server and remembers them for a while.
type MetadataOwners struct {
	client    metadata.Interface
	discovery observe.Discovery
	now       func() time.Time
	resources map[schema.GroupVersionKind]string

	mu    sync.Mutex
	seen  map[types.UID]seenOwner
	asked map[schema.GroupVersionKind]askedKind
}

type seenOwner struct {
	meta metav1.ObjectMeta
	why  string
	at   time.Time
}

// askedKind is what the API server said of a kind. It has no resource for one that isn't served.
type askedKind struct {
	resource string
	cluster  bool
	at       time.Time
}

// NewMetadataOwners returns a reader of owners. Resources are those of the kinds that are known beforehand.
func NewMetadataOwners(c metadata.Interface, d observe.Discovery, resources map[schema.GroupVersionKind]string, now func() time.Time) *MetadataOwners {
	return &MetadataOwners{
		client: c, discovery: d, now: now, resources: resources,
		seen: map[types.UID]seenOwner{}, asked: map[schema.GroupVersionKind]askedKind{},
	}
}

// Owner returns the owner's metadata, or why it can't be read. An owner that is gone, one
// that may not be read and a kind that isn't served end the walk up; any other
// failure is an error, since a guess could split a group.
func (o *MetadataOwners) Owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.ObjectMeta, string, error) {
	if s, ok := o.recall(ref.UID); ok {
		return s.meta, s.why, nil
	}
	s := seenOwner{at: o.now()}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return s.meta, workload.OwnerUnserved, nil
	}
	kind, err := o.kind(gv.WithKind(ref.Kind))
	if err != nil {
		return s.meta, "", err
	}
	if kind.cluster {
		namespace = ""
	}
	if kind.resource == "" {
		s.why = workload.OwnerUnserved
	} else if s.meta, s.why, err = o.read(ctx, gv.WithResource(kind.resource), namespace, ref); err != nil {
		return s.meta, "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[ref.UID] = s
	return s.meta, s.why, nil
}

func (o *MetadataOwners) read(ctx context.Context, r schema.GroupVersionResource, namespace string, ref metav1.OwnerReference) (metav1.ObjectMeta, string, error) {
	obj, err := o.client.Resource(r).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && obj.UID != ref.UID:
		return metav1.ObjectMeta{}, workload.OwnerGone, nil
	case apierrors.IsForbidden(err):
		return metav1.ObjectMeta{}, workload.OwnerForbidden, nil
	case err != nil:
		return metav1.ObjectMeta{}, "", fmt.Errorf("read %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return obj.ObjectMeta, "", nil
}

// kind returns the resource that holds the objects of a kind.
func (o *MetadataOwners) kind(gvk schema.GroupVersionKind) (askedKind, error) {
	if r, ok := o.resources[gvk]; ok {
		return askedKind{resource: r}, nil
	}
	o.mu.Lock()
	known, ok := o.asked[gvk]
	o.mu.Unlock()
	if ok && o.now().Sub(known.at) < resourceTTL {
		return known, nil
	}
	asked := askedKind{at: o.now()}
	list, err := o.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return asked, fmt.Errorf("ask the API server for the resource of %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	if err == nil {
		for _, r := range list.APIResources {
			// Subresources have the kind of what they are of.
			if r.Kind == gvk.Kind && r.SingularName != "" {
				asked.resource, asked.cluster = r.Name, !r.Namespaced
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked[gvk] = asked
	return asked, nil
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
