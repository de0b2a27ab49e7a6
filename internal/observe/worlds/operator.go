package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// endpoint is a slurmrestd within Kubernetes, and how to get tokens for it.
type endpoint struct {
	URL, namespace string
	fallbacks      []string
	// Files for TLS, where this program has them.
	caFile, certFile, keyFile string
	tokens                    func(ctx context.Context, kube kubernetes.Interface, user string) (rest.TokenSource, error)
}

var errNoRestApi = errors.New("the operator runs no RestApi")

// findRestApi finds the slurmrestd of the one cluster that the operator runs.
func findRestApi(ctx context.Context, kube kubernetes.Interface) (endpoint, error) {
	var apis v1beta1.RestApiList
	if err := list(ctx, kube, "restapis", &apis); err != nil {
		return endpoint{}, err
	}
	switch len(apis.Items) {
	case 0:
		return endpoint{}, errNoRestApi
	case 1:
	default:
		return endpoint{}, fmt.Errorf("there are %d RestApis, and no bridge says which one is meant: name one with --slurm-url and --slurm-jwt-key-file", len(apis.Items))
	}
	api := &apis.Items[0]
	at := endpoint{URL: api.URL(), namespace: api.Namespace}
	var controllers v1beta1.ControllerList
	if err := list(ctx, kube, "controllers", &controllers); err != nil {
		return at, err
	}
	for i := range controllers.Items {
		c := &controllers.Items[i]
		if key := c.JwtKey(); key != nil && c.Namespace == api.Namespace && c.Name == api.Spec.ControllerRef.Name {
			at.tokens = ofKey(c.Namespace, key)
		}
	}
	return at, nil
}

// list reads all objects of one of the operator's kinds; none where Kubernetes doesn't know it.
func list(ctx context.Context, kube kubernetes.Interface, resource string, into any) error {
	return listIn(ctx, kube, resource, "", into)
}

func listIn(ctx context.Context, kube kubernetes.Interface, resource, namespace string, into any) error {
	path := "/apis/" + v1beta1.GroupVersion.String() + "/"
	if namespace != "" {
		path += "namespaces/" + namespace + "/"
	}
	text, err := kube.Discovery().RESTClient().Get().AbsPath(path + resource).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		return lackError{lacking("list", resource+"."+v1beta1.GroupVersion.Group, namespace), err}
	case err != nil:
		return fmt.Errorf("list %s: %w", resource, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// listVisible reads those that the reader may see: all, or else those of a namespace; hidden
// is then a sentence on that.
func listVisible(ctx context.Context, kube kubernetes.Interface, resource, fallback string, into any) (hidden string, err error) {
	err = list(ctx, kube, resource, into)
	if !apierrors.IsForbidden(err) || fallback == "" {
		return "", err
	}
	if err := listIn(ctx, kube, resource, fallback, into); err != nil {
		return "", err
	}
	return fmt.Sprintf("only the %s of namespace %s are shown: %s", resource, fallback, lacking("list", resource+"."+v1beta1.GroupVersion.Group, "")), nil
}

// ofKey makes tokens with a cluster's own key.
func ofKey(namespace string, key *corev1.SecretKeySelector) func(context.Context, kubernetes.Interface, string) (rest.TokenSource, error) {
	return func(ctx context.Context, kube kubernetes.Interface, user string) (rest.TokenSource, error) {
		s := &secretReader{kube: kube, namespace: namespace, at: secretKey{name: key.Name, key: key.Key, makes: true}}
		if _, err := s.read(ctx); err != nil {
			return nil, fmt.Errorf("%w (the cluster's key can't be read: %w)", errNoToken, err)
		}
		return s.tokens(user)
	}
}
