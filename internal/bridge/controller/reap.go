package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// recheck is when a pod is looked at again whose end may come without an event
// of its own, such as the loss of its node.
const recheck = 30 * time.Second

// unknownAgain is the same for a pod whose job isn't known here: nothing tells of one whose mark somebody has removed.
const unknownAgain = 2 * time.Second

func podName(namespaced string) types.NamespacedName {
	namespace, name, _ := strings.Cut(namespaced, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// podReaper ends pods whose jobs have ended, and releases those that have ended themselves.
type podReaper struct{ *Bridge }

// Reconcile handles one pod.
func (r *podReaper) Reconcile(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	var pod corev1.Pod
	err := r.Client.Get(ctx, key, &pod)
	if apierrors.IsNotFound(err) || err == nil && pod.Spec.SchedulerName != r.SchedulerName {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read pod %s: %w", key, err)
	}
	gone, err := r.gone(ctx, &pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	unknown := !r.recallJob(ctx, &pod, gone)
	switch {
	case gone:
		return again(r.release(ctx, &pod))
	case pod.DeletionTimestamp != nil:
		r.tellStuck(ctx, &pod)
		return ctrl.Result{RequeueAfter: recheck}, nil
	case pod.Spec.NodeName == "" && pod.Labels[v1beta1.LabelJobID] == "":
		return ctrl.Result{}, nil
	case !r.View.Synced():
		// What is known of Slurm is not all yet: another job may cover the pod.
		return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil
	}
	if pod.Labels[v1beta1.LabelJobID] != "" && len(r.Index.Naming(pod.UID)) == 0 {
		// The submitter's view has a job that this one hasn't.
		r.View.Wake()
	}
	if err := r.adopt(ctx, &pod); err != nil || pod.Spec.NodeName == "" {
		return ctrl.Result{}, err
	}
	if err := r.endWithJob(ctx, &pod); err != nil || !unknown {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: unknownAgain}, nil
}

// again makes a conflict what it is: the object has changed, and the next look at it is due soon.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}

// gone tells whether a pod is really gone, looking at its node where that matters.
func (b *Bridge) gone(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return workload.Gone(pod, nil), nil
	}
	var node corev1.Node
	err := b.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s of pod %s/%s: %w", pod.Spec.NodeName, pod.Namespace, pod.Name, err)
	}
	return workload.Gone(pod, &node), nil
}

// release lets a pod go that is gone: first its job, if no other pod needs it.
func (r *podReaper) release(ctx context.Context, pod *corev1.Pod) error {
	if !slices.Contains(pod.Finalizers, v1beta1.FinalizerBridge) {
		return nil
	}
	r.remember(pod)
	for _, j := range r.Index.Naming(pod.UID) {
		if err := r.cancelIfAlone(ctx, j); err != nil {
			// The job's own reconciler goes on trying. The pod must not wait for Slurm.
			log.FromContext(ctx).Error(err, "Can't end the pod's job yet", "job", j.ID)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == v1beta1.FinalizerBridge })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "finalizers": kept,
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// fieldOwner owns the fields that the controllers write.
const fieldOwner = "slurm-bridge"

// endWithJob deletes a pod whose job has ended or doesn't cover it any more, by
// the job's own record, or which lost its job for good.
func (r *podReaper) endWithJob(ctx context.Context, pod *corev1.Pod) error {
	node, err := r.slurmName(ctx, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	fate := workload.FateOf(pod, node, r.Index.Naming(pod.UID))
	gone := lost(pod)
	if !fate.End && gone == "" {
		return nil
	}
	if fate.End && fate.Kind != workload.FateEnded {
		// Only a record that is final can't be out of date.
		if err := r.reread(ctx, fate.Job.ID); err != nil {
			return fmt.Errorf("look again before pod %s/%s ends: %w", pod.Namespace, pod.Name, err)
		}
	}
	r.catchUp()
	named := r.Index.Naming(pod.UID)
	fate = workload.FateOf(pod, node, named)
	switch {
	case fate.End:
		return r.evict(ctx, pod, explain.FateReason(fate), explain.Fate(fate), workload.GraceFor(pod, fate.By, time.Now()))
	case gone != "" && workload.Missing(pod, named):
		return r.evict(ctx, pod, v1beta1.ReasonSlurmJobLost, gone, nil)
	}
	return nil
}

// reread reads one job from Slurm now.
func (b *Bridge) reread(ctx context.Context, id uint32) error {
	if _, err := b.View.RefreshJob(ctx, id); err != nil {
		return fmt.Errorf("read Slurm job %d: %w", id, err)
	}
	b.Index.Follow(b.View, id)
	return nil
}

// catchUp puts all jobs of the view into the index: the view tells of its changes
// a moment after it has them, and a job that isn't in the index yet may cover a pod.
func (b *Bridge) catchUp() {
	// Many pods may end at once: one looks for all.
	b.catching.Lock()
	defer b.catching.Unlock()
	generation := b.View.Generation()
	if b.indexed == generation && generation > 0 {
		return
	}
	for _, j := range b.View.Jobs() {
		b.Index.Follow(b.View, j.ID)
	}
	b.indexed = generation
}

// lost returns what the submitter says on a pod whose job Slurm lost, once it
// found that the job can't be made again; "" otherwise.
func lost(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1beta1.ConditionSlurmScheduled && c.Status == corev1.ConditionFalse && c.Reason == v1beta1.ReasonSlurmJobLost {
			return c.Message
		}
	}
	return ""
}

// slurmName returns a Kubernetes node's name in Slurm, "" where the node is gone.
func (b *Bridge) slurmName(ctx context.Context, name string) (string, error) {
	var node corev1.Node
	err := b.Client.Get(ctx, types.NamespacedName{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read node %s: %w", name, err)
	}
	return placement.SlurmName(&node), nil
}

// evict deletes a pod with a reason, on the pod, its owner and its group. A grace of nil is the pod's own.
func (r *podReaper) evict(ctx context.Context, pod *corev1.Pod, reason, why string, grace *int64) error {
	log.FromContext(ctx).Info("Delete a pod for what its Slurm job became", "reason", reason, "why", why)
	if err := r.disrupt(ctx, pod, reason, why); err != nil {
		return err
	}
	r.disruptGroup(ctx, pod, reason, why)
	r.Ends.Pod(reason)
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Deleting", "%s: the pod is deleted", why)
	for _, o := range above(pod) {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, reason, "Deleting", "%s: its pods are deleted", why)
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if grace != nil {
		options = append(options, client.GracePeriodSeconds(*grace))
	}
	err := r.Client.Delete(ctx, pod, options...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s, of which the %s: %w", pod.Namespace, pod.Name, why, err)
	}
	return nil
}

// above returns the objects whose users look there first: the pod's controller and its group.
func above(pod *corev1.Pod) []runtime.Object {
	var out []runtime.Object
	if ref := metav1.GetControllerOf(pod); ref != nil {
		out = append(out, &corev1.ObjectReference{
			APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID, Namespace: pod.Namespace,
		})
	}
	group := corev1.ObjectReference{Kind: "PodGroup", Namespace: pod.Namespace}
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		group.APIVersion, group.Name = schedulingv1beta1.SchemeGroupVersion.String(), *g.PodGroupName
	} else if name := pod.Labels[workload.LabelCoscheduling]; name != "" {
		group.APIVersion, group.Name = "scheduling.x-k8s.io/v1alpha1", name
	}
	if group.Name != "" {
		out = append(out, &group)
	}
	return out
}

// tellStuck says on a pod that should have ended long ago why its job is kept:
// its containers may be alive, and only somebody who knows can say that they aren't.
func (r *podReaper) tellStuck(ctx context.Context, pod *corev1.Pod) {
	if time.Since(pod.DeletionTimestamp.Time) < recheck || pod.Spec.NodeName == "" {
		return
	}
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); err != nil || workload.NodeReady(&node) {
		return
	}
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, v1beta1.ReasonNodeUnreachable, "Waiting",
		"node %s is not ready, so the pod's containers may still run and its Slurm job keeps the node. If they can't be running, taint the node with "+
			"%s=nodeshutdown:NoExecute, delete the node, or delete the pod by force", node.Name, corev1.TaintNodeOutOfService)
}

// disrupt says on a pod why it is about to be deleted, in the condition that
// Kubernetes' own controllers look at.
func (r *podReaper) disrupt(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return err
	}
	err = r.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("tell pod %s/%s why it ends: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
