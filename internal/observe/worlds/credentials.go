package worlds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/slurm/rest"
)

// secretKey is one key of a Secret of the bridge: a token, or the key to make tokens with.
type secretKey struct {
	name, key string
	makes     bool
}

// usualSecrets are those of the chart's defaults and guide, for whoever may not read Deployments.
func usualSecrets() []secretKey {
	return []secretKey{{name: "slurm-bridge-token", key: "auth-token"}, {name: "slurm-jwt", key: "jwt.key", makes: true}}
}

// errNoToken is what to do where the bridge's own credentials can't be used.
var errNoToken = errors.New("no token for Slurm: set SLURM_JWT to what \"scontrol token\" prints")

// tokens returns the bridge's own credentials.
func (b bridge) tokens(ctx context.Context, kube kubernetes.Interface, user string) (rest.TokenSource, error) {
	if b.namespace == "" {
		return nil, errNoToken
	}
	candidates, err := b.secrets(ctx, kube)
	for _, c := range candidates {
		s := &secretReader{kube: kube, namespace: b.namespace, at: c}
		switch _, failure := s.read(ctx); {
		case failure == nil:
			return s.tokens(user)
		case apierrors.IsNotFound(failure) || errors.Is(failure, errNoKey):
			err = errors.Join(err, failure)
		default:
			return nil, fmt.Errorf("%w (the bridge's can't be read: %w)", errNoToken, failure)
		}
	}
	return nil, fmt.Errorf("%w (the bridge's can't be found: %w)", errNoToken, err)
}

// secrets finds the Secrets that the bridge's programs have mounted, whatever they are called.
func (b bridge) secrets(ctx context.Context, kube kubernetes.Interface) ([]secretKey, error) {
	deployments, err := kube.AppsV1().Deployments(b.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return usualSecrets(), nil
	}
	if err != nil {
		return usualSecrets(), fmt.Errorf("list the Deployments of namespace %s: %w", b.namespace, err)
	}
	var out []secretKey
	for i := range deployments.Items {
		if spec := deployments.Items[i].Spec.Template.Spec; readsConfig(spec) {
			out = append(out, mounted(spec)...)
		}
	}
	return append(out, usualSecrets()...), nil
}

func readsConfig(spec corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == configMap {
			return true
		}
	}
	return false
}

// mounted returns the Secrets of a pod that have a token, or a key to make them with.
func mounted(spec corev1.PodSpec) []secretKey {
	var out []secretKey
	for _, v := range spec.Volumes {
		if v.Secret == nil {
			continue
		}
		for _, item := range v.Secret.Items {
			switch item.Path {
			case "auth-token":
				out = append(out, secretKey{name: v.Secret.SecretName, key: item.Key})
			case "jwt.key":
				out = append(out, secretKey{name: v.Secret.SecretName, key: item.Key, makes: true})
			}
		}
		if len(v.Secret.Items) == 0 && strings.Contains(v.Name, "token") {
			out = append(out, secretKey{name: v.Secret.SecretName, key: "auth-token"})
		}
	}
	for _, c := range spec.Containers {
		for _, e := range c.Env {
			if e.Name == "SLURM_JWT" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				ref := e.ValueFrom.SecretKeyRef
				out = append(out, secretKey{name: ref.Name, key: cmp.Or(ref.Key, "auth-token")})
			}
		}
	}
	return out
}
