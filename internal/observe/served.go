package observe

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery tells what the API server serves.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Served returns the first of some versions of a resource that the API server has, the zero value if it has none.
func Served(d Discovery, versions []schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	for _, v := range versions {
		list, err := d.ServerResourcesForGroupVersion(v.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return schema.GroupVersionResource{}, fmt.Errorf("ask the API server for %s: %w", v.GroupVersion(), err)
		}
		for _, r := range list.APIResources {
			if r.Name == v.Resource {
				return v, nil
			}
		}
	}
	return schema.GroupVersionResource{}, nil
}
