package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// groupCounter keeps the status of PodGroups of scheduling.x-k8s.io, as their own
// project's controller does where it runs. It says what that one would say, so the two don't fight.
type groupCounter struct {
	*Bridge

	mu sync.Mutex
	// written is what a group was last given, which it shows only after a while, or never
	// where its definition lacks a field.
	written map[types.NamespacedName]writtenCounts
}

type writtenCounts struct {
	uid    types.UID
	counts workload.Counts
}

func (b *Bridge) addGroups(mgr manager.Manager) error {
	type key = types.NamespacedName
	type queue = workqueue.TypedRateLimitingInterface[key]
	r := &groupCounter{Bridge: b, written: map[key]writtenCounts{}}
	one := func(o client.Object, q queue) {
		pod, ok := o.(*corev1.Pod)
		if name := o.GetLabels()[workload.LabelCoscheduling]; ok && name != "" && pod.Spec.SchedulerName == b.SchedulerName {
			q.Add(key{Namespace: pod.Namespace, Name: name})
		}
	}
	watch := handler.TypedFuncs[client.Object, key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q queue) { one(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q queue) { one(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q queue) { one(e.Object, q) },
	}
	return builder.TypedControllerManagedBy[key](mgr).Named("bridge-groups").
		Watches(&corev1.Pod{}, watch).
		WithOptions(controller.TypedOptions[key]{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// Reconcile handles one group.
func (r *groupCounter) Reconcile(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{workload.LabelCoscheduling: key.Name})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("list pods of PodGroup %s: %w", key, err)
	}
	if len(list.Items) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.written, key)
		return ctrl.Result{}, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"})
	err = r.Live.Get(ctx, key, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read PodGroup %s: %w", key, err)
	}
	return ctrl.Result{}, r.write(ctx, key, u, list.Items)
}

func (r *groupCounter) write(ctx context.Context, key types.NamespacedName, u *unstructured.Unstructured, pods []corev1.Pod) error {
	group, err := workload.CoschedulingOf(u)
	if err != nil {
		return err
	}
	all := make([]*corev1.Pod, 0, len(pods))
	for i := range pods {
		all = append(all, &pods[i])
	}
	now := writtenCounts{group.UID, workload.CountsOf(group.MinCount, all)}
	r.mu.Lock()
	last := r.written[key]
	r.mu.Unlock()
	if now == last || now.counts == group.Counts {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": group.UID}, "status": now.counts})
	if err != nil {
		return fmt.Errorf("status of PodGroup %s: %w", key, err)
	}
	err = r.Client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the status of PodGroup %s: %w", key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[key] = now
	return nil
}
