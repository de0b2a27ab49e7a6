package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// accountingReconciler keeps slurmdbd.
type accountingReconciler struct{ *shared }

func (r *accountingReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.Accounting{}).
		Owns(&appsv1.StatefulSet{}).Owns(&corev1.Service{}).Owns(&corev1.Secret{}).
		Watches(&corev1.Pod{}, onPods(v1beta1.NameSlurmdbd)).
		Watches(&corev1.Secret{}, requests(r.withSecret)).
		Watches(&v1beta1.Controller{}, requests(func(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
			ref := o.(*v1beta1.Controller).Spec.AccountingRef
			if ref == nil || ref.Name == "" {
				return nil, nil
			}
			return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: ref.Name}}, nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindAccounting), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// withSecret finds the Accountings that refer to a Secret.
func (r *accountingReconciler) withSecret(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
	var list v1beta1.AccountingList
	if err := r.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil, fmt.Errorf("list Accountings: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		a := &list.Items[i]
		if names(a.Spec.SlurmKeyRef, o.GetName()) || names(a.JwtKey(), o.GetName()) || names(password(a), o.GetName()) || strings.HasSuffix(o.GetName(), v1beta1.KeysSuffix) {
			out = append(out, client.ObjectKeyFromObject(a))
		}
	}
	return out, nil
}

// leader finds the Controller that leads changes of slurmdbd's key: the first by name that
// reports to it with the same key.
func (r *accountingReconciler) leader(ctx context.Context, a *v1beta1.Accounting) (*v1beta1.Controller, map[string][]byte, error) {
	var list v1beta1.ControllerList
	if err := r.List(ctx, &list, client.InNamespace(a.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("list Controllers: %w", err)
	}
	slices.SortFunc(list.Items, func(x, y v1beta1.Controller) int { return strings.Compare(x.Name, y.Name) })
	for i := range list.Items {
		c := &list.Items[i]
		if ref := c.Spec.AccountingRef; ref == nil || ref.Name != a.Name || c.Spec.External || !sameKey(c.Spec.SlurmKeyRef, a.Spec.SlurmKeyRef) {
			continue
		}
		data, err := r.keys(ctx, c)
		return c, data, err
	}
	return nil, nil, nil
}

func sameKey(a, b *corev1.SecretKeySelector) bool {
	return a != nil && b != nil && a.Name == b.Name && a.Key == b.Key
}

func password(a *v1beta1.Accounting) *corev1.SecretKeySelector {
	if a.Spec.StorageConfig == nil {
		return nil
	}
	return &a.Spec.StorageConfig.PasswordKeyRef
}

// Reconcile implements reconcile.Reconciler.
func (r *accountingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &v1beta1.Accounting{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, a))
	if !found || a.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	a.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindAccounting))
	before := a.DeepCopy()

	facts := cluster.AccountingFacts{Accounting: a, Images: r.Images}
	for _, k := range []struct {
		ref     *corev1.SecretKeySelector
		content *[]byte
	}{{a.Spec.SlurmKeyRef, &facts.SlurmKey}, {a.JwtKey(), &facts.JwtKey}, {password(a), &facts.Password}} {
		if *k.content, err = r.key(ctx, a.Namespace, k.ref); err != nil {
			return ctrl.Result{}, err
		}
	}
	if facts.Controller, facts.Keys, err = r.leader(ctx, a); err != nil {
		return ctrl.Result{}, err
	}
	plan := cluster.Accounting(facts)
	err = r.applyAll(ctx, a, plan.Objects)
	report := report{err: err}
	for _, p := range plan.Problems {
		report.problems = append(report.problems, problem{p.Reason, p.Message})
	}
	if stateErr := r.state(ctx, a, &report); stateErr != nil {
		return ctrl.Result{}, stateErr
	}
	report.conditions(&a.Status.Conditions, a.Generation)
	return result(err, act.PatchStatus(ctx, r.Client, before, a))
}

func (r *accountingReconciler) state(ctx context.Context, a *v1beta1.Accounting, out *report) error {
	if a.Spec.External {
		host, port := a.Address()
		out.ready, out.readyReason, out.message = true, v1beta1.ReasonExternal, fmt.Sprintf("slurmdbd runs at %s:%d, outside of Kubernetes", host, port)
		return nil
	}
	var live appsv1.StatefulSet
	found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: a.WorkloadName()}, &live))
	if err != nil {
		return fmt.Errorf("read StatefulSet %s/%s: %w", a.Namespace, a.WorkloadName(), err)
	}
	out.ready = found && statefulSetReady(&live)
	out.message = "slurmdbd answers"
	if !out.ready {
		out.message = "slurmdbd is not ready yet: see pod " + a.WorkloadName() + "-0"
	}
	return r.trouble(ctx, a.Namespace, v1beta1.NameSlurmdbd, a.Name, out)
}
