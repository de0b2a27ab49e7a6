package operator

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
)

// setupUnsupported lets the kinds that this version doesn't act on say so themselves.
func (s *shared) setupUnsupported(mgr ctrl.Manager) error {
	return errors.Join(
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
