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
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
)

// slurmAge is how old Slurm's answer may be to act on it.
const slurmAge = 20 * time.Second

// nodeSetReconciler keeps worker pods and the state of their Slurm nodes.
type nodeSetReconciler struct {
	*shared
	recorder events.EventRecorder
	written  observe.Written
	failures failures
}

// fieldNodeName is the index of pods by the node that they are on.
const fieldNodeName = "spec.nodeName"

func (r *nodeSetReconciler) setup(mgr ctrl.Manager, slurmChanged chan event.GenericEvent) error {
	ofController := func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
		return r.find(ctx, o.GetNamespace(), func(n *v1beta1.NodeSet) bool { return n.Spec.ControllerRef.Name == o.GetName() })
	}
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, fieldNodeName, func(o client.Object) []string {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" && pod.Labels[v1beta1.LabelName] == v1beta1.NameSlurmd {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	pods, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: r.podGone}); err != nil {
		return fmt.Errorf("watch the end of pods: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.NodeSet{}).
		Owns(&corev1.Pod{}).Owns(&corev1.ConfigMap{}).
		Watches(&v1beta1.Controller{}, requests(ofController)).
		Watches(&corev1.Secret{}, requests(func(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
			return r.find(ctx, o.GetNamespace(), func(n *v1beta1.NodeSet) bool { return names(nodeset.SssdConf(n), o.GetName()) })
		})).
		Watches(&corev1.Node{}, requests(r.onNode), builder.WithPredicates(nodeChanged())).
		WatchesRawSource(source.Channel(slurmChanged, requests(ofController))).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.workers(v1beta1.KindNodeSet), ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// podGone takes the pod that an informer has seen end, or what it knew last of it.
func (r *nodeSetReconciler) podGone(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		r.written.Gone(pod.UID)
	}
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

// onNode finds the NodeSets that a Kubernetes node matters to: those with a pod on it, and
// those that want one on every node that fits.
func (r *nodeSetReconciler) onNode(ctx context.Context, o client.Object) ([]types.NamespacedName, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.MatchingFields{fieldNodeName: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list worker pods on %s: %w", o.GetName(), err)
	}
	out, err := r.find(ctx, "", func(n *v1beta1.NodeSet) bool { return n.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet })
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		if owner != nil && owner.Kind == v1beta1.KindNodeSet {
			out = append(out, types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: owner.Name})
		}
	}
	return out, nil
}

// Reconcile implements reconcile.Reconciler.
func (r *nodeSetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &v1beta1.NodeSet{}
	found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, n))
	if !found {
		return ctrl.Result{}, err
	}
	n.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.KindNodeSet))
	if n.DeletionTimestamp != nil && !slices.ContainsFunc(finalizersOf(), func(f string) bool { return slices.Contains(n.Finalizers, f) }) {
		r.failures.forget(n.UID)
		return ctrl.Result{}, nil // its pods go with it
	}
	c := &v1beta1.Controller{}
	key := types.NamespacedName{Namespace: n.Namespace, Name: n.Spec.ControllerRef.Name}
	found, err = ignoreNotFound(r.Get(ctx, key, c))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Controller %s: %w", key, err)
	}
	if !found {
		return r.withoutController(ctx, n)
	}
	view := r.clusters.View(key, slurmAge)
	facts, err := r.observe(ctx, n, c, view)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := nodeset.Make(facts)
	if err := r.addFinalizers(ctx, n, plan.Finalizers); err != nil {
		return result(err)
	}
	before := n.DeepCopy()
	carrier := &carrier{nodeSetReconciler: r, set: n, view: view}
	err = errors.Join(r.applySshConfig(ctx, n), carrier.carryOut(ctx, plan.Steps))
	for _, refused := range carrier.refused {
		plan.Problems = append(plan.Problems, nodeset.Problem{Reason: v1beta1.ReasonInvalidSpec, Message: refused})
	}

	n.Status = plan.Status
	report := reportOn(plan, view.Known, view.Why, err)
	report.conditions(&n.Status.Conditions, n.Generation)
	out, err := result(err, act.PatchStatus(ctx, r.Client, before, n), r.keepFinalizers(ctx, n, plan.Finalizers))
	if err == nil {
		out.RequeueAfter = soonest(out.RequeueAfter, plan.Again)
	}
	return out, err
}

// applySshConfig writes what the workers' sshd reads.
func (r *nodeSetReconciler) applySshConfig(ctx context.Context, n *v1beta1.NodeSet) error {
	config := nodeset.SshConfig(n)
	if config == nil {
		return nil
	}
	return r.applier.Apply(ctx, n, config)
}

// patience is how long after a NodeSet its Controller may come, in one manifest with it,
// until that is worth a warning.
const patience = 10 * time.Second

func (r *nodeSetReconciler) withoutController(ctx context.Context, n *v1beta1.NodeSet) (ctrl.Result, error) {
	if n.DeletionTimestamp != nil {
		// With its cluster everything is gone that a deletion would wait for.
		return result(r.keepFinalizers(ctx, n, nil))
	}
	before := n.DeepCopy()
	message := fmt.Sprintf("spec.controllerRef: there is no Controller %q in namespace %s: create it", n.Spec.ControllerRef.Name, n.Namespace)
	if left := n.CreationTimestamp.Add(patience).Sub(r.now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if !hasProblem(n.Status.Conditions, message) {
		r.recorder.Eventf(n, nil, corev1.EventTypeWarning, v1beta1.EventControllerRefFailed, "Reconcile", "%s", message)
	}
	report{message: message, problems: []problem{{v1beta1.ReasonReferenceNotFound, message}}}.conditions(&n.Status.Conditions, n.Generation)
	return result(act.PatchStatus(ctx, r.Client, before, n))
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
