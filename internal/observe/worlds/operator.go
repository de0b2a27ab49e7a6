package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// endpoint is a slurmrestd within Kubernetes, and how to get tokens for it.
type endpoint struct {
	URL, namespace string
	tokens         func(ctx context.Context, kube kubernetes.Interface, user string) (rest.TokenSource, error)
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
	path := "/apis/" + v1beta1.GroupVersion.String() + "/" + resource
	text, err := kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", resource, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// ofKey makes tokens with a cluster's own key.
func ofKey(namespace string, key *corev1.SecretKeySelector) func(context.Context, kubernetes.Interface, string) (rest.TokenSource, error) {
	return func(ctx context.Context, kube kubernetes.Interface, user string) (rest.TokenSource, error) {
		secret, err := kube.CoreV1().Secrets(namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("%w (the cluster's key can't be read: %w)", errNoToken, err)
		}
		return rest.TokensFromKey(rest.KeyConfig{Key: secret.Data[key.Key], User: user})
	}
}
