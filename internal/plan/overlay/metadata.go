package overlay

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Metadata joins the labels and annotations of a custom resource with what it asks for on
// top, with the operator's own winning.
func Metadata(owner metav1.Object, user v1beta1.Metadata, labels, annotations map[string]string) (map[string]string, map[string]string) {
	return join(inherited(owner.GetLabels()), user.Labels, labels),
		join(inherited(owner.GetAnnotations()), user.Annotations, annotations)
}

// inherited leaves out what tools keep about the custom resource itself.
func inherited(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if !strings.HasPrefix(k, "kubectl.kubernetes.io/") && !strings.HasPrefix(k, "meta.helm.sh/") &&
			!strings.HasPrefix(k, "argocd.argoproj.io/") && !strings.HasPrefix(k, "deployment.kubernetes.io/") {
			out[k] = v
		}
	}
	return out
}

func join(layers ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, l := range layers {
		maps.Copy(out, l)
	}
	return out
}
