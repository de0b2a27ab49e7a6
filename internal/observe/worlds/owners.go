package worlds

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// kindOfJob is the only kind of owners of which more counts than its metadata.
var kindOfJob = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}

// ownerWalk walks up from the bridge's pods. Each kind of owners is listed once: that are fewer
// calls than one for each owner, and what isn't in the list is gone for sure.
type ownerWalk struct {
	*groupReader
	// resources are those of the kinds that the bridge's scheduler may read.
	resources map[schema.GroupVersionKind]string
	found     map[types.UID]view.PodOwner
	kept      map[types.UID]bool
}

// owners reads the owners of the bridge's pods, and theirs.
func (g *groupReader) owners(ctx context.Context, b bridge, f *view.Facts, scheduler string) {
	w := ownerWalk{groupReader: g, resources: workload.OwnerResources(), found: map[types.UID]view.PodOwner{}, kept: map[types.UID]bool{}}
	for _, k := range b.OwnerKinds {
		w.resources[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}] = k.Resource
	}
	w.resources[kindOfJob] = "jobs"
	g.OwnerKinds = map[string]string{}
	parents := map[types.UID]*metav1.OwnerReference{}
	for i := range f.Kubernetes.Pods {
		parents[f.Kubernetes.Pods[i].UID] = metav1.GetControllerOf(&f.Kubernetes.Pods[i])
	}
	for i := range f.Kubernetes.Pods {
		if pod := &f.Kubernetes.Pods[i]; pod.Spec.SchedulerName == scheduler {
			w.from(ctx, parents[pod.UID], parents)
		}
	}
}

// from walks up from an owner, and keeps what it meets.
func (w *ownerWalk) from(ctx context.Context, ref *metav1.OwnerReference, pods map[types.UID]*metav1.OwnerReference) {
	for ref != nil && !w.kept[ref.UID] {
		w.kept[ref.UID] = true
		if ref.APIVersion == "v1" && ref.Kind == "Pod" {
			ref = pods[ref.UID]
			continue
		}
		w.read(ctx, *ref)
		o, known := w.found[ref.UID]
		if !known {
			return
		}
		w.Owners = append(w.Owners, o)
		ref = o.Controller
	}
}

// read lists the owners of a kind, once.
func (w *ownerWalk) read(ctx context.Context, ref metav1.OwnerReference) {
	name := view.OwnerKind(ref)
	if _, read := w.OwnerKinds[name]; read {
		return
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource, readable := w.resources[kind]
	if !readable {
		// The bridge's scheduler may read the kinds that it knows, and those of its configuration.
		w.OwnerKinds[name] = workload.OwnerForbidden
		return
	}
	w.OwnerKinds[name] = ""
	r := kind.GroupVersion().WithResource(resource)
	w.visible(view.PartOwners(ref.Kind), r.GroupResource().String(), func(namespace string) error {
		if kind == kindOfJob {
			return w.jobs(ctx, namespace)
		}
		list, err := w.metadata(ctx, r, namespace, "")
		if apierrors.IsNotFound(err) {
			return nil // the API server doesn't have the kind, so its objects are gone
		}
		for i := range list {
			m := &list[i]
			o := view.PodOwner{Controller: metav1.GetControllerOf(m)}
			o.Kind, o.Name, o.UID, o.Annotations = kind.GroupKind(), m.Name, m.UID, redact.Annotations(m.Annotations)
			w.found[m.UID] = o
		}
		return err
	})
}

func (w *ownerWalk) jobs(ctx context.Context, namespace string) error {
	for o := (metav1.ListOptions{Limit: page}); ; {
		list, err := w.kube.BatchV1().Jobs(namespace).List(ctx, o)
		if err != nil {
			return err
		}
		for i := range list.Items {
			job := &list.Items[i]
			owner := view.PodOwner{Owner: workload.OwnerOfJob(job), Controller: metav1.GetControllerOf(job)}
			owner.Annotations = redact.Annotations(owner.Annotations)
			w.found[job.UID] = owner
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return nil
		}
	}
}
