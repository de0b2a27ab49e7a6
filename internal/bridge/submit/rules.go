package submit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/internal/plan/policy"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Rules knows what the jobs of a namespace may ask for.
type Rules interface {
	Rules(ctx context.Context, namespace string) (policy.Rules, error)
	OnChange(changed func()) error
	Synced() []cache.InformerSynced
}

// rule gives a workload its namespace's defaults, and forbids what its rules don't allow.
// Admission does so, too, but annotations change, and those of owners may have been there before.
func (s *Submitter) rule(ctx context.Context, g *workload.Group) error {
	if s.Rules == nil {
		return nil
	}
	rules, err := s.Rules.Rules(ctx, g.Key.Namespace)
	if err != nil {
		return fmt.Errorf("rules of namespace %s: %w", g.Key.Namespace, err)
	}
	rules.Apply(g)
	return nil
}

// rulesChanged looks again at all pods that wait.
func (s *Submitter) rulesChanged() {
	for _, obj := range s.Sources.Pods.Informer().GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) && pod.Spec.NodeName == "" && workload.Live(pod) {
			s.queue.Add(s.Kinds.KeyOf(pod))
		}
	}
}
