package operator

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// loginSetReconciler keeps login pods.
type loginSetReconciler struct {
	*shared
	recorder events.EventRecorder
	hostKeys *hostKeys
}

func (r *loginSetReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.LoginSet{}).
		Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Owns(&corev1.ConfigMap{}).
		Watches(&v1beta1.Controller{}, requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
			return r.find(ctx, o.GetNamespace(), func(l *v1beta1.LoginSet) bool { return l.Spec.ControllerRef.Name == o.GetName() })
		})).
		Watches(&corev1.Secret{}, requests(r.onSecret)).
		WatchesRawSource(source.Channel(r.hostKeys.made, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindLoginSet), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

func (r *loginSetReconciler) find(ctx context.Context, namespace string, match func(*v1beta1.LoginSet) bool) ([]types.NamespacedName, error) {
	var list v1beta1.LoginSetList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list LoginSets: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out, nil
}

// onSecret finds the LoginSets whose host keys, sssd.conf or slurm.key a Secret holds.
func (r *loginSetReconciler) onSecret(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
	var list v1beta1.ControllerList
	if err := r.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil, fmt.Errorf("list Controllers: %w", err)
	}
	clusters := map[string]bool{}
	for i := range list.Items {
		clusters[list.Items[i].Name] = names(list.Items[i].Spec.SlurmKeyRef, o.GetName()) || list.Items[i].KeysName() == o.GetName()
	}
	return r.find(ctx, o.GetNamespace(), func(l *v1beta1.LoginSet) bool {
		return l.HostKeysName() == o.GetName() || l.Spec.SssdConfRef.Name == o.GetName() || clusters[l.Spec.ControllerRef.Name]
	})
}

// Reconcile implements reconcile.Reconciler.
func (r *loginSetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	l := &v1beta1.LoginSet{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, l))
	if !found || l.DeletionTimestamp != nil {
		if err == nil {
			r.hostKeys.forget(req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	l.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindLoginSet))
	before := l.DeepCopy()

	facts, err := r.observe(ctx, l)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := cluster.LoginSet(facts)
	r.warnWithoutController(l, facts)
	err = errors.Join(r.makeHostKeys(ctx, facts, plan), r.applyAll(ctx, l, plan.Objects))
	if err == nil && plan.Because != "" {
		r.recorder.Eventf(l, nil, corev1.EventTypeNormal, v1beta1.EventRollingUpdate, "Update", "Replacing the login pods: %s", plan.Because)
	}
	report := report{err: err}
	for _, p := range plan.Problems {
		report.problems = append(report.problems, problem{p.Reason, p.Message})
	}
	if err := r.state(ctx, l, plan, &report); err != nil {
		return ctrl.Result{}, err
	}
	report.conditions(&l.Status.Conditions, l.Generation)
	return result(err, act.PatchStatus(ctx, r.Client, before, l))
}

func (r *loginSetReconciler) observe(ctx context.Context, l *v1beta1.LoginSet) (cluster.LoginSetFacts, error) {
	facts := cluster.LoginSetFacts{LoginSet: l, Images: r.Images, ClusterDomain: r.ClusterDomain}
	var err error
	if facts.SssdConf, err = r.key(ctx, l.Namespace, &l.Spec.SssdConfRef); err != nil {
		return facts, err
	}
	if facts.HostKeys, err = optional(ctx, r.Client, l.Namespace, l.HostKeysName(), &corev1.Secret{}); err != nil {
		return facts, err
	}
	if facts.Live, err = optional(ctx, r.Client, l.Namespace, l.WorkloadName(), &appsv1.Deployment{}); err != nil {
		return facts, err
	}
	if facts.Controller, err = optional(ctx, r.Client, l.Namespace, l.Spec.ControllerRef.Name, &v1beta1.Controller{}); err != nil || facts.Controller == nil {
		return facts, err
	}
	if facts.SlurmKey, err = r.key(ctx, l.Namespace, facts.Controller.Spec.SlurmKeyRef); err != nil {
		return facts, err
	}
	facts.Keys, err = r.keys(ctx, facts.Controller)
	return facts, err
}

// optional reads an object into out and returns it, or nil where it doesn't exist.
func optional[T client.Object](ctx context.Context, c client.Client, namespace, name string, out T) (T, error) {
	var none T
	found, err := ignoreNotFound(c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, out))
	if err != nil {
		return none, fmt.Errorf("read %T %s/%s: %w", out, namespace, name, err)
	}
	if !found {
		return none, nil
	}
	return out, nil
}

// makeHostKeys writes new host keys once they have been made.
func (r *loginSetReconciler) makeHostKeys(ctx context.Context, facts cluster.LoginSetFacts, plan cluster.LoginPlan) error {
	name := client.ObjectKeyFromObject(facts.LoginSet)
	if !plan.MakeHostKeys {
		r.hostKeys.forget(name)
		return nil
	}
	keys, err := r.hostKeys.get(name)
	if err != nil || keys == nil {
		return err
	}
	secret := facts.HostKeysSecret(keys)
	// What is there already stays: the caches haven't shown it yet.
	if err := ignoreExists(r.Create(ctx, secret)); err != nil {
		r.recorder.Eventf(facts.LoginSet, nil, corev1.EventTypeWarning, v1beta1.EventCreateFailed, "Create", "Can't create Secret %s: %v", secret.Name, err)
		return fmt.Errorf("create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	r.recorder.Eventf(facts.LoginSet, nil, corev1.EventTypeNormal, v1beta1.EventCreateSucceeded, "Create", "Created Secret %s with new ssh host keys", secret.Name)
	return nil
}

// warnWithoutController tells once that the Controller is missing.
func (r *loginSetReconciler) warnWithoutController(l *v1beta1.LoginSet, facts cluster.LoginSetFacts) {
	if facts.Controller != nil {
		return
	}
	message := cluster.NoController(l)
	if hasProblem(l.Status.Conditions, message) {
		return
	}
	r.recorder.Eventf(l, nil, corev1.EventTypeWarning, v1beta1.EventControllerRefFailed, "Reconcile", "%s", message)
}

// state says how the Deployment stands.
func (r *loginSetReconciler) state(ctx context.Context, l *v1beta1.LoginSet, plan cluster.LoginPlan, out *report) error {
	l.Status.Selector = labels.SelectorFromSet(cluster.LoginSelector(l)).String()
	live, err := optional(ctx, r.Client, l.Namespace, l.WorkloadName(), &appsv1.Deployment{})
	if err != nil {
		return err
	}
	l.Status.Replicas = 0
	if live != nil {
		l.Status.Replicas = live.Status.Replicas
	}
	switch {
	case live == nil && plan.MakeHostKeys:
		out.message = "the ssh host keys are being made"
	case live == nil || !deploymentReady(live):
		out.message = "the login pods are not ready yet: see the pods of Deployment " + l.WorkloadName()
	default:
		out.ready = true
		out.message = fmt.Sprintf("%d login pods are ready", live.Status.ReadyReplicas)
	}
	return nil
}
