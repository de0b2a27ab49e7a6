package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
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

// trouble adds to a report on a daemon that isn't ready why its pods aren't.
func (s *shared) trouble(ctx context.Context, namespace, daemon, instance string, out *report) error {
	if out.ready {
		return nil
	}
	var pods corev1.PodList
	err := s.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1beta1.LabelName: daemon, v1beta1.LabelInstance: instance})
	if err != nil {
		return fmt.Errorf("list the pods of %s %s/%s: %w", daemon, namespace, instance, err)
	}
	for i := range pods.Items {
		if text := cluster.PodTrouble(&pods.Items[i]); text != "" {
			out.problems = append(out.problems, problem{v1beta1.ReasonPodFailed, text})
			return nil
		}
	}
	return nil
}
