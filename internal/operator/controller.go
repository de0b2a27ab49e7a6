package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// controllerReconciler keeps slurmctld, and the operator's connection to the cluster.
type controllerReconciler struct{ *shared }

func (r *controllerReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.Controller{}).
		Owns(&appsv1.StatefulSet{}).Owns(&corev1.Service{}).Owns(&corev1.ConfigMap{}).Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, requests(r.ofPod)).
		Watches(&corev1.PersistentVolumeClaim{}, r.refersTo(func(c *v1beta1.Controller, name string) bool {
			return c.Spec.Persistence != nil && c.Spec.Persistence.ExistingClaim == name
		})).
		Watches(&v1beta1.NodeSet{}, requests(func(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
			return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: o.(*v1beta1.NodeSet).Spec.ControllerRef.Name}}, nil
		})).
		Watches(&v1beta1.RestApi{}, requests(func(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
			return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: o.(*v1beta1.RestApi).Spec.ControllerRef.Name}}, nil
		})).
		Watches(&v1beta1.Accounting{}, r.refersTo(func(c *v1beta1.Controller, name string) bool {
			return c.Spec.AccountingRef != nil && c.Spec.AccountingRef.Name == name
		})).
		Watches(&corev1.Pod{}, onPods(v1beta1.NameSlurmctld)).
		Watches(&corev1.Secret{}, r.refersTo(func(c *v1beta1.Controller, name string) bool {
			return names(c.Spec.SlurmKeyRef, name) || names(c.JwtKey(), name) || c.KeysName() == name
		})).
		Watches(&corev1.ConfigMap{}, r.refersTo(func(c *v1beta1.Controller, name string) bool {
			return slices.Contains(configMaps(c), name)
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindController), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

func names(ref *corev1.SecretKeySelector, name string) bool { return ref != nil && ref.Name == name }

// refersTo finds the Controllers of a namespace that refer to an object.
func (s *shared) refersTo(match func(c *v1beta1.Controller, name string) bool) handler.EventHandler {
	return requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
		var list v1beta1.ControllerList
		if err := s.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
			return nil, fmt.Errorf("list Controllers: %w", err)
		}
		var out []types.NamespacedName
		for i := range list.Items {
			if match(&list.Items[i], o.GetName()) {
				out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
		return out, nil
	})
}

// configMaps are the ConfigMaps that a Controller refers to.
func configMaps(c *v1beta1.Controller) []string {
	var out []string
	for _, refs := range [][]corev1.LocalObjectReference{c.Spec.ConfigFileRefs, c.Spec.PrologScriptRefs, c.Spec.EpilogScriptRefs,
		c.Spec.PrologSlurmctldScriptRefs, c.Spec.EpilogSlurmctldScriptRefs} {
		for _, ref := range refs {
			out = append(out, ref.Name)
		}
	}
	if c.Spec.JwksKeyRef != nil {
		out = append(out, c.Spec.JwksKeyRef.Name)
	}
	return out
}

// Reconcile implements reconcile.Reconciler.
func (r *controllerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &v1beta1.Controller{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, c))
	if !found || c.DeletionTimestamp != nil {
		if err == nil {
			r.clusters.Drop(req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindController))
	before := c.DeepCopy()

	facts, err := r.observe(ctx, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	keys, keysErr := r.nextKeys(ctx, c, &facts)
	plan := cluster.Controller(facts)
	err = errors.Join(keysErr, r.applyAll(ctx, c, plan.Objects), r.recreate(ctx, c, plan.Recreate), r.connect(ctx, c, facts.JwtKey))
	control, controlErr := r.control(ctx, c, facts.Live)
	err = errors.Join(err, controlErr, r.spreadKeys(ctx, c, facts.Keys))
	monitorAgain, monitorErr := r.monitor(ctx, c)
	err = errors.Join(err, monitorErr)
	report := report{err: err}
	for _, p := range plan.Problems {
		report.problems = append(report.problems, problem{p.Reason, p.Message})
	}
	if statusErr := r.state(ctx, c, control, &report); statusErr != nil {
		return ctrl.Result{}, errors.Join(err, statusErr)
	}
	if keys.Message != "" {
		report.moving = true
		report.message += "; " + keys.Message
	}
	report.conditions(&c.Status.Conditions, c.Generation)
	out, err := result(err, act.PatchStatus(ctx, r.Client, before, c))
	out.RequeueAfter = soonest(out.RequeueAfter, control.Again, keys.Again, monitorAgain)
	return out, err
}

func (r *controllerReconciler) observe(ctx context.Context, c *v1beta1.Controller) (cluster.ControllerFacts, error) {
	facts := cluster.ControllerFacts{Controller: c, Images: r.Images, ConfigMaps: map[string]map[string]string{}}
	var err error
	if facts.SlurmKey, err = r.key(ctx, c.Namespace, c.Spec.SlurmKeyRef); err != nil {
		return facts, err
	}
	if facts.JwtKey, err = r.key(ctx, c.Namespace, c.JwtKey()); err != nil {
		return facts, err
	}
	for _, name := range configMaps(c) {
		var m corev1.ConfigMap
		found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, &m))
		if err != nil {
			return facts, fmt.Errorf("read ConfigMap %s/%s: %w", c.Namespace, name, err)
		}
		if found {
			facts.ConfigMaps[name] = files(&m)
		}
	}
	if ref := c.Spec.AccountingRef; ref != nil && ref.Name != "" {
		a := &v1beta1.Accounting{}
		found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}, a))
		if err != nil {
			return facts, fmt.Errorf("read Accounting %s/%s: %w", c.Namespace, ref.Name, err)
		}
		if found {
			facts.Accounting = a
		}
	}
	var sets v1beta1.NodeSetList
	if err := r.List(ctx, &sets, client.InNamespace(c.Namespace)); err != nil {
		return facts, fmt.Errorf("list NodeSets: %w", err)
	}
	for _, n := range sets.Items {
		if n.Spec.ControllerRef.Name == c.Name {
			facts.NodeSets = append(facts.NodeSets, n)
		}
	}
	live := &appsv1.StatefulSet{}
	found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.WorkloadName()}, live))
	if err != nil {
		return facts, fmt.Errorf("read StatefulSet %s/%s: %w", c.Namespace, c.WorkloadName(), err)
	}
	if found {
		facts.Live = live
	}
	if p := c.Spec.Persistence; p != nil && p.ExistingClaim != "" && c.Replicas() > 1 {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: p.ExistingClaim}, claim))
		if err != nil {
			return facts, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", c.Namespace, p.ExistingClaim, err)
		}
		if found {
			facts.Claim = claim
		}
	}
	return facts, nil
}

// files is a ConfigMap's content, text or not.
func files(m *corev1.ConfigMap) map[string]string {
	out := map[string]string{}
	for k, v := range m.Data {
		out[k] = v
	}
	for k, v := range m.BinaryData {
		out[k] = string(v)
	}
	return out
}

// connect follows the cluster's slurmrestd, the oldest where there are several, and its key.
func (r *controllerReconciler) connect(ctx context.Context, c *v1beta1.Controller, key []byte) error {
	name := client.ObjectKeyFromObject(c)
	var list v1beta1.RestApiList
	if err := r.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("list RestApis: %w", err)
	}
	var oldest *v1beta1.RestApi
	for i := range list.Items {
		a := &list.Items[i]
		if a.Spec.ControllerRef.Name == c.Name && a.DeletionTimestamp == nil &&
			(oldest == nil || a.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = a
		}
	}
	if oldest == nil || key == nil {
		r.clusters.Drop(name)
		return nil
	}
	return r.clusters.Use(name, oldest.URL(), key, readySince(oldest))
}

// readySince is when slurmrestd came up, zero while it is down or not known to be up.
func readySince(a *v1beta1.RestApi) time.Time {
	c := meta.FindStatusCondition(a.Status.Conditions, v1beta1.ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

func (r *controllerReconciler) state(ctx context.Context, c *v1beta1.Controller, control cluster.Control, out *report) error {
	if c.Spec.External {
		host, port := c.Address()
		out.ready, out.readyReason, out.message = true, v1beta1.ReasonExternal, fmt.Sprintf("slurmctld runs at %s:%d, outside of Kubernetes", host, port)
		return nil
	}
	out.message = control.Message(c)
	if c.Replicas() > 1 {
		out.ready, out.moving = control.Active != nil, !control.Settled(c)
		return r.trouble(ctx, c.Namespace, v1beta1.NameSlurmctld, c.Name, out)
	}
	var live appsv1.StatefulSet
	found, err := ignoreNotFound(r.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.WorkloadName()}, &live))
	if err != nil {
		return fmt.Errorf("read StatefulSet %s/%s: %w", c.Namespace, c.WorkloadName(), err)
	}
	out.ready = found && statefulSetReady(&live)
	out.message = "slurmctld answers"
	if !out.ready {
		out.message = "slurmctld is not ready yet: see pod " + c.PodName(0)
	}
	return r.trouble(ctx, c.Namespace, v1beta1.NameSlurmctld, c.Name, out)
}
