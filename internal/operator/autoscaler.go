package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/demand"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
)

// +kubebuilder:rbac:groups=slinky.slurm.net,resources=nodesets/scale,verbs=get;patch;update
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch

const (
	// scaleEvery is how often the jobs are looked at, which costs neither Slurm nor Kubernetes a call.
	scaleEvery = 2 * time.Second
	// scaleLater is how soon to look whether Slurm answers again.
	scaleLater = 30 * time.Second
	// sparesAtOnce bounds the calls to Slurm in one reconcile.
	sparesAtOnce = 16
)

// autoscaler sets the number of workers of a cluster's NodeSets with spec.autoscaling. It looks at a
// whole cluster at once, as several NodeSets may be able to run a job.
type autoscaler struct {
	*shared
	recorder events.EventRecorder
	// notes are problems with spares, by cluster. One goroutine reconciles.
	notes map[types.NamespacedName]string
}

func newAutoscaler(s *shared, recorder events.EventRecorder) *autoscaler {
	return &autoscaler{shared: s, recorder: recorder, notes: map[types.NamespacedName]string{}}
}

func (r *autoscaler) setup(mgr ctrl.Manager) error {
	toController := func(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
		n, ok := o.(*v1beta1.NodeSet)
		if !ok {
			return nil, nil
		}
		return []types.NamespacedName{{Namespace: n.Namespace, Name: n.Spec.ControllerRef.Name}}, nil
	}
	return ctrl.NewControllerManagedBy(mgr).Named("autoscaler").
		For(&v1beta1.Controller{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.NodeSet{}, requests(toController), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *autoscaler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &v1beta1.Controller{}
	if found, err := ignoreNotFound(r.Get(ctx, req.NamespacedName, c)); !found || c.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	var list v1beta1.NodeSetList
	if err := r.List(ctx, &list, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list NodeSets of namespace %s: %w", req.Namespace, err)
	}
	var sets []*v1beta1.NodeSet
	var errs []error
	for i := range list.Items {
		n := &list.Items[i]
		switch {
		case n.Spec.ControllerRef.Name != c.Name || n.DeletionTimestamp != nil:
		case n.Spec.Autoscaling == nil:
			errs = append(errs, r.stop(ctx, n))
		default:
			sets = append(sets, n)
		}
	}
	view := r.clusters.View(req.NamespacedName, slurmAge)
	if !view.Known {
		for _, n := range sets {
			errs = append(errs, r.report(ctx, n, false, v1beta1.ReasonSlurmUnknown, "the number of workers stays as it is, as it is not known what jobs wait: "+view.Why, nil))
		}
		return again(scaleLater, sets, errs)
	}
	s := &scaling{autoscaler: r, controller: c, name: req.NamespacedName, view: view, others: map[string]string{}, byName: map[string]*v1beta1.NodeSet{}}
	errs = append(errs, s.scale(ctx, sets, r.clusters.Jobs(req.NamespacedName))...)
	if len(sets) == 0 && s.done {
		return result(errs...)
	}
	return again(scaleEvery, sets, errs)
}

// again comes back soon where there is something to look after.
func again(after time.Duration, sets []*v1beta1.NodeSet, errs []error) (ctrl.Result, error) {
	if len(sets) > 0 && after > scaleEvery {
		after = 3 * time.Second
	}
	out, err := result(errs...)
	out.RequeueAfter = soonest(out.RequeueAfter, after)
	return out, err
}

// scaling is one look at a cluster.
type scaling struct {
	*autoscaler
	controller *v1beta1.Controller
	name       types.NamespacedName
	view       observe.View
	// others are the autoscalers of somebody else, by NodeSet.
	others map[string]string
	byName map[string]*v1beta1.NodeSet
	// done: nothing is left to do about spares.
	done bool
}

func (s *scaling) scale(ctx context.Context, sets []*v1beta1.NodeSet, jobs []slurm.Job) []error {
	f := demand.Facts{Now: s.now(), Jobs: jobs}
	if len(sets) > 0 {
		if err := s.findOthers(ctx); err != nil {
			return []error{err}
		}
	}
	var errs []error
	workers := map[string]bool{}
	for _, n := range sets {
		pods, err := s.pods(ctx, n)
		if err != nil {
			return []error{err}
		}
		for i := range pods {
			workers[nodeset.SlurmNode(&pods[i])] = true
		}
		set, err := demand.SetOf(n, s.controller, pods, s.view.Nodes)
		if err != nil {
			errs = append(errs, s.report(ctx, n, false, v1beta1.ReasonInvalidSpec, err.Error(), nil))
			continue
		}
		s.byName[n.Name] = n
		f.Sets = append(f.Sets, set)
	}
	f.Others = demand.Outside(s.view.Nodes, workers)
	plan := demand.Make(f)
	for i, d := range plan.Decisions {
		errs = append(errs, s.carryOut(ctx, s.byName[d.Name], f.Sets[i], d))
	}
	s.spares(ctx, demand.Spares(f, plan, s.view.Nodes, demand.MaxNodes(s.controller)))
	return errs
}

func (r *autoscaler) pods(ctx context.Context, n *v1beta1.NodeSet) (out []corev1.Pod, err error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(n.Namespace), client.MatchingLabels(nodeset.Selector(n.Name))); err != nil {
		return nil, fmt.Errorf("list pods of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	for _, pod := range pods.Items {
		if metav1.IsControlledBy(&pod, n) {
			out = append(out, pod)
		}
	}
	return out, nil
}

// findOthers finds the HorizontalPodAutoscalers of NodeSets; KEDA makes such, too.
func (s *scaling) findOthers(ctx context.Context) error {
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := s.List(ctx, &list, client.InNamespace(s.controller.Namespace)); err != nil {
		return fmt.Errorf("list HorizontalPodAutoscalers of namespace %s: %w", s.controller.Namespace, err)
	}
	for _, h := range list.Items {
		ref := h.Spec.ScaleTargetRef
		if ref.Kind == v1beta1.KindNodeSet && strings.HasPrefix(ref.APIVersion, v1beta1.GroupVersion.Group+"/") {
			s.others[ref.Name] = h.Name
		}
	}
	return nil
}

// carryOut writes a decision, if it changes anything.
func (s *scaling) carryOut(ctx context.Context, n *v1beta1.NodeSet, set demand.Set, d demand.Decision) error {
	if other, ok := s.others[n.Name]; ok {
		return s.report(ctx, n, false, v1beta1.ReasonOtherAutoscaler, fmt.Sprintf("HorizontalPodAutoscaler %s sets the number of workers, too: remove it, or spec.autoscaling, which does nothing until then", other), set.Remember())
	}
	message := d.Message
	if note := s.notes[s.name]; note != "" {
		message += "; " + note
	}
	if err := s.report(ctx, n, true, string(d.State), message, set.Remember()); err != nil {
		return err
	}
	if d.Replicas == set.Replicas {
		return nil
	}
	scale := &autoscalingv1.Scale{}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, d.Replicas))
	err := s.SubResource("scale").Patch(ctx, n, patch, client.WithSubResourceBody(scale), client.FieldOwner(v1beta1.AutoscalerFieldOwner))
	if err != nil {
		return fmt.Errorf("scale NodeSet %s/%s to %d: %w", n.Namespace, n.Name, d.Replicas, err)
	}
	s.recorder.Eventf(n, nil, corev1.EventTypeNormal, v1beta1.EventAutoscaling, "Scale", "%s", d.Message)
	return nil
}

// report writes the condition and what is to be remembered, and tells in an event what keeps it from scaling.
func (r *autoscaler) report(ctx context.Context, n *v1beta1.NodeSet, active bool, reason, message string, worker *v1beta1.NodeSetCapacity) error {
	before := n.DeepCopy()
	old := meta.FindStatusCondition(n.Status.Conditions, v1beta1.ConditionAutoscaling)
	changed := old == nil || old.Reason != reason
	act.SetCondition(&n.Status.Conditions, n.Generation, v1beta1.ConditionAutoscaling, active, reason, message)
	if worker != nil {
		n.Status.Autoscaling = &v1beta1.NodeSetAutoscalingStatus{Worker: worker}
	}
	if err := act.PatchStatus(ctx, r.Client, before, n); err != nil {
		return err
	}
	if changed && (!active || reason == v1beta1.ReasonLimitedByMaximum) { // a change of the number has its own event
		kind := corev1.EventTypeNormal
		if !active {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(n, nil, kind, v1beta1.EventAutoscaling, "Scale", "%s", message)
	}
	return nil
}

// stop takes away what a NodeSet without spec.autoscaling shows of it.
func (r *autoscaler) stop(ctx context.Context, n *v1beta1.NodeSet) error {
	if n.Status.Autoscaling == nil && meta.FindStatusCondition(n.Status.Conditions, v1beta1.ConditionAutoscaling) == nil {
		return nil
	}
	before := n.DeepCopy()
	n.Status.Autoscaling = nil
	meta.RemoveStatusCondition(&n.Status.Conditions, v1beta1.ConditionAutoscaling)
	return act.PatchStatus(ctx, r.Client, before, n)
}

// spares carries out some steps. What a user should know about the rest is told with the next decision.
func (s *scaling) spares(ctx context.Context, steps []demand.SpareStep) {
	s.done = len(steps) == 0
	delete(s.notes, s.name)
	for _, step := range steps[:min(len(steps), sparesAtOnce)] {
		if err := s.spare(ctx, step); err != nil {
			s.notes[s.name] = fmt.Sprintf("Slurm doesn't show workers that aren't started: node %s: %v", step.Node, err)
			return
		}
	}
}

func (s *scaling) spare(ctx context.Context, step demand.SpareStep) error {
	write := s.view.Slurm
	switch {
	case step.Remove:
		if err := write.DeleteNode(ctx, step.Node); err != nil && !errors.Is(err, slurm.ErrNotFound) {
			return err
		}
	case step.Create != nil:
		if err := write.CreateNode(ctx, *step.Create); err != nil && !exists(err) {
			return err
		}
		fallthrough
	default:
		if err := write.UpdateNode(ctx, step.Node, slurm.NodeUpdate{State: slurm.NodeDown, Reason: step.Reason}); err != nil {
			return err
		}
	}
	_, _, err := s.view.Refresh(ctx, step.Node)
	return err
}

// exists tells whether Slurm has a node of that name already.
func exists(err error) bool {
	const nodeExists = 2168
	var e *slurm.Error
	return errors.As(err, &e) && e.Code == nodeExists
}
