package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// claimReaper removes the ResourceClaims of pods that have ended: their devices are
// free, and the next pod may get them. Those of pods that are deleted go with them.
type claimReaper struct{ *Bridge }

// endedWithClaim tells whether a pod of the bridge has ended and had a claim for its extended resources.
func (b *Bridge) endedWithClaim(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.SchedulerName == b.SchedulerName && pod.Status.ExtendedResourceClaimStatus != nil &&
		(pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

func (b *Bridge) addClaims(mgr manager.Manager) error {
	type key = types.NamespacedName
	watch := handler.TypedFuncs[client.Object, key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q workqueue.TypedRateLimitingInterface[key]) {
			if b.endedWithClaim(e.Object) {
				q.Add(client.ObjectKeyFromObject(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[key]) {
			if b.endedWithClaim(e.ObjectNew) && !b.endedWithClaim(e.ObjectOld) {
				q.Add(client.ObjectKeyFromObject(e.ObjectNew))
			}
		},
	}
	return builder.TypedControllerManagedBy[key](mgr).Named("bridge-claims").
		Watches(&corev1.Pod{}, watch).
		WithOptions(controller.TypedOptions[key]{MaxConcurrentReconciles: max(b.PodWorkers, 1)}).
		Complete(&claimReaper{b})
}

// Reconcile removes the claim of one pod.
func (r *claimReaper) Reconcile(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.Client.Get(ctx, key, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.endedWithClaim(&pod) {
		return ctrl.Result{}, nil
	}
	var claim resourcev1.ResourceClaim
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Status.ExtendedResourceClaimStatus.ResourceClaimName}
	if err := r.Live.Get(ctx, name, &claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Annotations[v1beta1.AnnotationExtendedResourceClaim] != "true" || !metav1.IsControlledBy(&claim, &pod) {
		return ctrl.Result{}, nil
	}
	err := r.Client.Delete(ctx, &claim, client.Preconditions{UID: &claim.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("remove ResourceClaim %s of pod %s, which has ended: %w", name, key, err)
	}
	return ctrl.Result{}, nil
}
