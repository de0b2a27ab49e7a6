package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// recheck is when a pod is looked at again whose end may come without an event
// of its own, such as the loss of its node.
const recheck = 30 * time.Second

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
	switch {
	case gone:
		return again(r.release(ctx, &pod))
	case pod.DeletionTimestamp != nil:
		return ctrl.Result{RequeueAfter: recheck}, nil
	case pod.Spec.NodeName != "" && !r.View.Synced():
		// What is known of Slurm is not all yet: another job may cover the pod.
		return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil
	case pod.Spec.NodeName != "":
		return ctrl.Result{}, r.endWithJob(ctx, &pod)
	}
	return ctrl.Result{}, nil
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

// endWithJob deletes a pod whose job has ended, by the job's own record.
func (r *podReaper) endWithJob(ctx context.Context, pod *corev1.Pod) error {
	j, ok := r.endedJob(pod)
	if !ok {
		return nil
	}
	why := explain.Ended(j)
	log.FromContext(ctx).Info("Delete a pod whose Slurm job has ended", "job", j.ID, "why", why)
	if err := r.disrupt(ctx, pod, explain.EndReason(j), why); err != nil {
		return err
	}
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, explain.EndReason(j), "Deleting", "%s: the pod is deleted", why)
	err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s, of which the %s: %w", pod.Namespace, pod.Name, why, err)
	}
	return nil
}

// endedJob returns the job that a pod names, if it covers the pod and has ended,
// and no other job covers the pod. A job that Slurm doesn't know is not an ended one.
func (r *podReaper) endedJob(pod *corev1.Pod) (slurm.Job, bool) {
	var ended slurm.Job
	found := false
	for _, j := range r.Index.Naming(pod.UID) {
		if !j.States.JobEnded() {
			return slurm.Job{}, false
		}
		if strconv.FormatUint(uint64(j.ID), 10) == pod.Labels[v1beta1.LabelJobID] {
			ended, found = j, true
		}
	}
	return ended, found
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

// jobReaper ends jobs none of whose pods is left.
type jobReaper struct{ *Bridge }

// Reconcile handles one job.
func (r *jobReaper) Reconcile(ctx context.Context, id uint32) (ctrl.Result, error) {
	j, ok := r.Index.Get(id)
	if !ok {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.cancelIfAlone(ctx, j)
}

// cancelIfAlone cancels a job if all its pods are really gone.
func (b *Bridge) cancelIfAlone(ctx context.Context, j slurm.Job) error {
	mark, ok := workload.Owned(j, b.Index.Cluster())
	if !ok || j.States.JobEnded() {
		return nil
	}
	c, _ := workload.ParseComment(j)
	for i, name := range c.Pods {
		left, err := b.left(ctx, podName(name), mark.Pods[i])
		if err != nil || left {
			return err
		}
	}
	return b.cancel(ctx, j)
}

// left tells whether a pod of a job still needs it. A pod that the informers
// don't show is looked up once more: they may be behind.
func (b *Bridge) left(ctx context.Context, name types.NamespacedName, uid types.UID) (bool, error) {
	var pod corev1.Pod
	err := b.Client.Get(ctx, name, &pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != uid {
		err = b.Live.Get(ctx, name, &pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("read pod %s: %w", name, err)
	case pod.UID != uid:
		return false, nil
	}
	gone, err := b.gone(ctx, &pod)
	return !gone, err
}

// cancel cancels a job, making sure that it is still the one that it was: ids come again.
func (b *Bridge) cancel(ctx context.Context, j slurm.Job) error {
	if known, err := b.View.RefreshJob(ctx, j.ID); err != nil || !known {
		return err
	}
	now, known := b.View.Job(j.ID)
	if !known || now.States.JobEnded() || now.SLUID != j.SLUID || now.AdminComment != j.AdminComment {
		return nil
	}
	log.FromContext(ctx).Info("Cancel a Slurm job whose pods are gone", "job", j.ID)
	if err := b.Slurm.CancelJobs(ctx, j.ID); err != nil {
		return fmt.Errorf("cancel Slurm job %d, whose pods are gone: %w", j.ID, err)
	}
	_, err := b.View.RefreshJob(ctx, j.ID)
	return err
}
