package operator

import (
	"context"
	"fmt"

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

// restApiReconciler keeps slurmrestd.
type restApiReconciler struct{ *shared }

func (r *restApiReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.RestApi{}).
		Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		Watches(&v1beta1.Controller{}, requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
			return r.ofControllers(ctx, o.GetNamespace(), func(name string) bool { return name == o.GetName() })
		})).
		Watches(&corev1.Pod{}, onPods(v1beta1.NameSlurmrestd)).
		Watches(&corev1.Secret{}, requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
			return r.ofControllersWith(ctx, o.GetNamespace(), func(c *v1beta1.Controller) bool {
				return names(c.Spec.SlurmKeyRef, o.GetName()) || c.KeysName() == o.GetName()
			})
		})).
		Watches(&corev1.ConfigMap{}, requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
			return r.ofControllersWith(ctx, o.GetNamespace(), func(c *v1beta1.Controller) bool { return c.ConfigName() == o.GetName() })
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindRestApi), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

func (r *restApiReconciler) ofControllersWith(ctx context.Context, namespace string, match func(*v1beta1.Controller) bool) ([]types.NamespacedName, error) {
	var list v1beta1.ControllerList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Controllers: %w", err)
	}
	matched := map[string]bool{}
	for i := range list.Items {
		if match(&list.Items[i]) {
			matched[list.Items[i].Name] = true
		}
	}
	if len(matched) == 0 {
		return nil, nil
	}
	return r.ofControllers(ctx, namespace, func(name string) bool { return matched[name] })
}

func (r *restApiReconciler) ofControllers(ctx context.Context, namespace string, match func(name string) bool) ([]types.NamespacedName, error) {
	var list v1beta1.RestApiList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list RestApis: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		if match(list.Items[i].Spec.ControllerRef.Name) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out, nil
}

// Reconcile implements reconcile.Reconciler.
func (r *restApiReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &v1beta1.RestApi{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, a))
	if !found || a.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	a.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindRestApi))
	before := a.DeepCopy()

	facts, err := r.observe(ctx, a)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := cluster.RestApi(facts)
	err = r.applyAll(ctx, a, plan.Objects)
	report := report{err: err}
	for _, p := range plan.Problems {
		report.problems = append(report.problems, problem{p.Reason, p.Message})
	}
	var live appsv1.Deployment
	found, stateErr := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: a.WorkloadName()}, &live))
	if stateErr != nil {
		return ctrl.Result{}, fmt.Errorf("read Deployment %s/%s: %w", a.Namespace, a.WorkloadName(), stateErr)
	}
	report.ready = found && deploymentReady(&live)
	report.message = "slurmrestd answers at " + a.URL()
	if !report.ready {
		report.message = "slurmrestd is not ready yet: see the pods of Deployment " + a.WorkloadName()
	}
	if stateErr := r.trouble(ctx, a.Namespace, v1beta1.NameSlurmrestd, a.Name, &report); stateErr != nil {
		return ctrl.Result{}, stateErr
	}
	report.conditions(&a.Status.Conditions, a.Generation)
	return result(err, act.PatchStatus(ctx, r.Client, before, a))
}

func (r *restApiReconciler) observe(ctx context.Context, a *v1beta1.RestApi) (cluster.RestApiFacts, error) {
	facts := cluster.RestApiFacts{RestApi: a, Images: r.Images}
	c := &v1beta1.Controller{}
	found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.ControllerRef.Name}, c))
	if err != nil {
		return facts, fmt.Errorf("read Controller %s/%s: %w", a.Namespace, a.Spec.ControllerRef.Name, err)
	}
	if !found {
		return facts, nil
	}
	facts.Controller = c
	if facts.SlurmKey, err = r.key(ctx, a.Namespace, c.Spec.SlurmKeyRef); err != nil {
		return facts, err
	}
	if facts.Keys, err = r.keys(ctx, c); err != nil {
		return facts, err
	}
	var config corev1.ConfigMap
	found, err = ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: c.ConfigName()}, &config))
	if err != nil {
		return facts, fmt.Errorf("read ConfigMap %s/%s: %w", a.Namespace, c.ConfigName(), err)
	}
	if found {
		facts.Config = config.Data
	}
	return facts, nil
}
