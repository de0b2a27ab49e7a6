package operator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
)

// setupUnsupported lets the kinds that this version doesn't act on say so themselves.
func (s *shared) setupUnsupported(mgr ctrl.Manager) error {
	return errors.Join(
		ctrl.NewControllerManagedBy(mgr).For(&v1beta1.LoginSet{}).Complete(reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			l := &v1beta1.LoginSet{}
			if found, err := ignoreNotFound(s.Get(ctx, req.NamespacedName, l)); !found {
				return ctrl.Result{}, err
			}
			before := l.DeepCopy()
			l.Status.Selector = labels.SelectorFromSet(map[string]string{v1beta1.LabelName: v1beta1.NameLogin, v1beta1.LabelInstance: l.Name}).String()
			return s.unsupported(ctx, before, l, &l.Status.Status, "this version makes no login pods: log in to the pod of slurmctld with kubectl exec instead")
		})),
		ctrl.NewControllerManagedBy(mgr).For(&v1beta1.Token{}).Complete(reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			k := &v1beta1.Token{}
			if found, err := ignoreNotFound(s.Get(ctx, req.NamespacedName, k)); !found {
				return ctrl.Result{}, err
			}
			return s.unsupported(ctx, k.DeepCopy(), k, &k.Status.Status, "this version makes no tokens: use scontrol token in the pod of slurmctld instead")
		})),
	)
}

func (s *shared) unsupported(ctx context.Context, before, after client.Object, status *v1beta1.Status, message string) (ctrl.Result, error) {
	report{readyReason: v1beta1.ReasonNotSupported, message: message, problems: []problem{{v1beta1.ReasonNotSupported, message}}}.
		conditions(&status.Conditions, after.GetGeneration())
	return result(act.PatchStatus(ctx, s.Client, before, after))
}
