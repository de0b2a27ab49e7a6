package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
)

// slurmAge is how old Slurm's answer may be to act on it.
const slurmAge = 20 * time.Second

// nodeSetReconciler keeps worker pods and the state of their Slurm nodes.
type nodeSetReconciler struct {
	*shared
	recorder events.EventRecorder
}

func (r *nodeSetReconciler) setup(mgr ctrl.Manager, slurmChanged chan event.GenericEvent) error {
	ofController := func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
		return r.find(ctx, o.GetNamespace(), func(n *v1beta1.NodeSet) bool { return n.Spec.ControllerRef.Name == o.GetName() })
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.NodeSet{}).
		Owns(&corev1.Pod{}).
		Watches(&v1beta1.Controller{}, requests(ofController)).
		Watches(&corev1.Node{}, requests(r.onNode), builder.WithPredicates(nodeChanged())).
		WatchesRawSource(source.Channel(slurmChanged, requests(ofController))).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindNodeSet), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

func (r *nodeSetReconciler) find(ctx context.Context, namespace string, match func(*v1beta1.NodeSet) bool) ([]types.NamespacedName, error) {
	var list v1beta1.NodeSetList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list NodeSets: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out, nil
}

// onNode finds the NodeSets with a pod on a Kubernetes node.
func (r *nodeSetReconciler) onNode(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.MatchingLabels{v1beta1.LabelName: v1beta1.NameSlurmd}); err != nil {
		return nil, fmt.Errorf("list worker pods: %w", err)
	}
	var out []types.NamespacedName
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		if pods.Items[i].Spec.NodeName == o.GetName() && owner != nil && owner.Kind == v1beta1.KindNodeSet {
			out = append(out, types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: owner.Name})
		}
	}
	return out, nil
}

// Reconcile implements reconcile.Reconciler.
func (r *nodeSetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &v1beta1.NodeSet{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, n))
	if !found || n.DeletionTimestamp != nil {
		// The pods belong to the NodeSet: Kubernetes removes them with it.
		return ctrl.Result{}, err
	}
	n.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindNodeSet))
	before := n.DeepCopy()

	c := &v1beta1.Controller{}
	key := types.NamespacedName{Namespace: n.Namespace, Name: n.Spec.ControllerRef.Name}
	found, err = ignoreNotFound(r.Get(ctx, key, c))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Controller %s: %w", key, err)
	}
	if !found {
		return r.withoutController(ctx, before, n)
	}
	view := r.clusters.View(key, slurmAge)
	facts, err := r.observe(ctx, n, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	facts.Slurm = nodeset.SlurmFacts{Known: view.Known, Why: view.Why, Nodes: view.Nodes}
	plan := nodeset.Make(facts)
	carrier := &carrier{nodeSetReconciler: r, set: n, view: view}
	err = carrier.carryOut(ctx, plan.Steps)
	for _, refused := range carrier.refused {
		plan.Problems = append(plan.Problems, nodeset.Problem{Reason: v1beta1.ReasonInvalidSpec, Message: refused})
	}

	n.Status = plan.Status
	report := reportOn(plan, view.Known, view.Why, err)
	report.conditions(&n.Status.Conditions, n.Generation)
	out, err := result(err, act.PatchStatus(ctx, r.Client, before, n))
	out.RequeueAfter = plan.Again
	return out, err
}

// patience is how long after a NodeSet its Controller may come, in one manifest with it,
// until that is worth a warning.
const patience = 10 * time.Second

func (r *nodeSetReconciler) withoutController(ctx context.Context, before, n *v1beta1.NodeSet) (ctrl.Result, error) {
	message := fmt.Sprintf("spec.controllerRef: there is no Controller %q in namespace %s: create it", n.Spec.ControllerRef.Name, n.Namespace)
	if left := n.CreationTimestamp.Add(patience).Sub(r.now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if !hasProblem(n.Status.Conditions, message) {
		r.recorder.Eventf(n, nil, corev1.EventTypeWarning, v1beta1.EventControllerRefFailed, "Reconcile", "%s", message)
	}
	report{message: message, problems: []problem{{v1beta1.ReasonReferenceNotFound, message}}}.conditions(&n.Status.Conditions, n.Generation)
	return ctrl.Result{}, act.PatchStatus(ctx, r.Client, before, n)
}

// hasProblem tells whether a message is among those of the condition Degraded.
func hasProblem(conditions []metav1.Condition, message string) bool {
	for _, c := range conditions {
		if c.Type == v1beta1.ConditionDegraded {
			return slices.Contains(strings.Split(c.Message, "\n"), message)
		}
	}
	return false
}

func (r *nodeSetReconciler) observe(ctx context.Context, n *v1beta1.NodeSet, c *v1beta1.Controller) (nodeset.Facts, error) {
	facts := nodeset.Facts{
		NodeSet: n, Controller: c, Now: r.now(), Image: r.Images.Slurmd, ClusterDomain: r.ClusterDomain,
		Claims: map[string]bool{}, Nodes: map[string]*corev1.Node{}, NodeConditions: r.NodeConditions,
	}
	selector := client.MatchingLabels(nodeset.Selector(n.Name))
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(n.Namespace), selector); err != nil {
		return facts, fmt.Errorf("list pods of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, n) {
			continue
		}
		facts.Pods = append(facts.Pods, *pod)
		if err := r.kubeNode(ctx, pod.Spec.NodeName, facts.Nodes); err != nil {
			return facts, err
		}
	}
	if len(n.Spec.VolumeClaimTemplates) == 0 {
		return facts, nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &claims, client.InNamespace(n.Namespace), selector); err != nil {
		return facts, fmt.Errorf("list claims of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	for _, claim := range claims.Items {
		facts.Claims[claim.Name] = true
	}
	return facts, nil
}

func reportOn(plan nodeset.Plan, slurmKnown bool, why string, err error) report {
	s := plan.Status
	out := report{err: err, ready: s.ReadyReplicas == s.Desired && s.Replicas == s.Desired && s.UpdatedReplicas == s.Desired}
	for _, p := range plan.Problems {
		out.problems = append(out.problems, problem{p.Reason, p.Message})
	}
	out.message = fmt.Sprintf("%d of %d workers are ready", s.ReadyReplicas, s.Desired)
	var waits []string
	for _, step := range plan.Steps {
		if step.Action == nodeset.Wait || step.Action == nodeset.Drain {
			waits = append(waits, step.String())
			out.readyReason = v1beta1.ReasonWaitingForDrain
		}
	}
	if len(waits) > 0 && !out.ready {
		out.message += "; " + strings.Join(waits[:min(5, len(waits))], "; ")
	} else {
		out.readyReason = ""
	}
	if !slurmKnown && !strings.Contains(out.message, why) {
		out.message += "; the state of the Slurm nodes is not known: " + why
	}
	return out
}

// result ends a reconcile: an object on its way out is waited for, other errors are tried again.
func result(errs ...error) (ctrl.Result, error) {
	err := errors.Join(errs...)
	if errors.Is(err, act.ErrDeleting) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}
