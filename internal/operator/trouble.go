package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/trouble"
)

// onPods looks at the owner of a daemon's pods whenever one of them changes. daemon is the
// value of their label.
func onPods(daemon string) handler.EventHandler {
	return requests(func(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
		l := o.GetLabels()
		if l[v1beta1.LabelName] != daemon || l[v1beta1.LabelInstance] == "" {
			return nil, nil
		}
		return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: l[v1beta1.LabelInstance]}}, nil
	})
}

// trouble adds to a report on a daemon what is wrong with its pods: why they aren't ready, or
// that they run with another configuration than they should.
func (s *shared) trouble(ctx context.Context, namespace, daemon, instance string, out *report) error {
	if out.ready && daemon != v1beta1.NameSlurmctld {
		return nil
	}
	var pods corev1.PodList
	err := s.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1beta1.LabelName: daemon, v1beta1.LabelInstance: instance})
	if err != nil {
		return fmt.Errorf("list the pods of %s %s/%s: %w", daemon, namespace, instance, err)
	}
	for i := range pods.Items {
		if text := trouble.Fallback(&pods.Items[i]); text != "" {
			out.problems = append(out.problems, problem{v1beta1.ReasonInvalidSpec, text})
			return nil
		}
	}
	if out.ready {
		return nil
	}
	for i := range pods.Items {
		if text := trouble.Of(&pods.Items[i]); text != "" {
			out.problems = append(out.problems, problem{v1beta1.ReasonPodFailed, text})
			return nil
		}
	}
	return nil
}
