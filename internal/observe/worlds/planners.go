package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/redact"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// operatorKinds are the operator's objects as they are.
type operatorKinds struct {
	controllers v1beta1.ControllerList
	sets        v1beta1.NodeSetList
}

// planners reads what only planners need. What can't be read is told in f.Unread.
func (s Sources) planners(ctx context.Context, w Want, f *view.Facts, kinds operatorKinds) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if len(w.Salt) == 0 { // sums without one could be tried out
		f.Unread = view.Parts{{What: view.PartBridge, Error: "no salt was given"}, {What: view.PartNodeSetSpecs, Error: "no salt was given"}}
		return
	}
	r := redact.New(w.Salt)
	for i := range f.Kubernetes.Pods {
		p := &f.Kubernetes.Pods[i]
		p.Annotations = r.SssdHash(p.Annotations)
	}
	a := &asker{kube: s.Kube, namespace: f.Kubernetes.Namespace}
	f.Bridge = s.bridgeFacts(ctx, a, f)
	f.Operator = s.operatorFacts(ctx, a, f, kinds, r)
	f.Unread = a.unread
}

// asker reads parts, and notes those that can't be had.
type asker struct {
	kube kubernetes.Interface
	// namespace is the only one whose pods are known, "" for all.
	namespace string
	unread    view.Parts
}

// lacks notes that a part can't be had: of one namespace, or but for one.
func (a *asker) lacks(p view.Part, right string, err error) {
	if p.Error = err.Error(); apierrors.IsForbidden(err) {
		p.Forbidden, p.Error = true, right
	}
	a.unread = append(a.unread, p)
}

// visible reads a part of all namespaces, or else of the one whose pods are known. It tells whether it is known at all.
func (a *asker) visible(what, resource string, read func(namespace string) error) bool {
	err := read("")
	if err == nil {
		return true
	}
	right := lacking("list", resource, "")
	if apierrors.IsForbidden(err) && a.namespace != "" && read(a.namespace) == nil {
		a.lacks(view.Part{What: what, Only: a.namespace}, right, err)
		return true
	}
	a.lacks(view.Part{What: what}, right, err)
	return false
}

// objects lists objects of a resource as they are.
func (a *asker) objects(ctx context.Context, r schema.GroupVersionResource, namespace string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	err := a.pages(ctx, r, namespace, "", "application/json", func(text []byte) (string, error) {
		var list unstructured.UnstructuredList
		if err := list.UnmarshalJSON(text); err != nil {
			return "", err
		}
		out = append(out, list.Items...)
		return list.GetContinue(), nil
	})
	return out, err
}

// metadata lists the metadata of objects.
func (a *asker) metadata(ctx context.Context, r schema.GroupVersionResource, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	err := a.pages(ctx, r, namespace, selector, accept, func(text []byte) (string, error) {
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(text, &list); err != nil {
			return "", err
		}
		out = append(out, list.Items...)
		return list.Continue, nil
	})
	return out, err
}

// pages lists objects, so many at a time. take reads an answer, and returns where it goes on.
func (a *asker) pages(ctx context.Context, r schema.GroupVersionResource, namespace, selector, accept string, take func([]byte) (string, error)) error {
	path := "/apis/" + r.GroupVersion().String() + "/"
	if r.Group == "" {
		path = "/api/" + r.Version + "/"
	}
	if namespace != "" {
		path += "namespaces/" + namespace + "/"
	}
	for next := ""; ; {
		get := a.kube.Discovery().RESTClient().Get().AbsPath(path+r.Resource).SetHeader("Accept", accept).Param("limit", fmt.Sprint(page))
		if selector != "" {
			get = get.Param("labelSelector", selector)
		}
		if next != "" {
			get = get.Param("continue", next)
		}
		text, err := get.DoRaw(ctx)
		if err == nil {
			next, err = take(text)
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		if next == "" {
			return nil
		}
	}
}

// clusterOf is the Controller, as namespace/name, whose slurmrestd is at an address within Kubernetes; "" for none of them.
func (s Sources) clusterOf(apis []v1beta1.RestApi) string {
	host, namespace := serviceOf(s.SlurmURL)
	if namespace == "" && s.bridge != nil {
		namespace = s.bridge.namespace
	}
	for i := range apis {
		if api := &apis[i]; api.WorkloadName() == host && api.Namespace == namespace {
			return api.Namespace + "/" + api.Spec.ControllerRef.Name
		}
	}
	return ""
}

// serviceOf are the name and the namespace of a Service in an address, the namespace "" where it isn't there.
func serviceOf(address string) (name, namespace string) {
	_, host, _ := strings.Cut(address, "://")
	host, _, _ = strings.Cut(host, "/")
	host, _, _ = strings.Cut(host, ":")
	name, rest, _ := strings.Cut(host, ".")
	namespace, _, _ = strings.Cut(rest, ".")
	return name, namespace
}

// absent tells whether an error says that the API server has no such kind, or that no bridge is there.
func absent(err error) bool { return apierrors.IsNotFound(err) || errors.Is(err, errNoBridge) }
