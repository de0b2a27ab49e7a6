package operator

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
)

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=delete

// ofPod finds the Controller of a slurmctld pod.
func (r *controllerReconciler) ofPod(_ context.Context, o client.Object) ([]types.NamespacedName, error) {
	l := o.GetLabels()
	if l[v1beta1.LabelName] != v1beta1.NameSlurmctld || l[v1beta1.LabelInstance] == "" {
		return nil, nil
	}
	return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: l[v1beta1.LabelInstance]}}, nil
}

// control looks after the slurmctld pods: which one is in control, and which one is next to
// get a new template.
func (r *controllerReconciler) control(ctx context.Context, c *v1beta1.Controller, live *appsv1.StatefulSet) (cluster.Control, error) {
	if c.Spec.External || live == nil {
		return cluster.Control{}, nil
	}
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{
		v1beta1.LabelName: v1beta1.NameSlurmctld, v1beta1.LabelInstance: c.Name})
	if err != nil {
		return cluster.Control{}, fmt.Errorf("list slurmctld pods of Controller %s/%s: %w", c.Namespace, c.Name, err)
	}
	out := cluster.ControlOf(c, live, pods.Items, r.now())
	var errs []error
	for _, l := range out.Labels {
		errs = append(errs, r.label(ctx, c, l))
	}
	if out.Replace == nil {
		return out, errors.Join(errs...)
	}
	err = client.IgnoreNotFound(r.Delete(ctx, out.Replace, client.Preconditions{UID: &out.Replace.UID}))
	if err != nil {
		errs = append(errs, fmt.Errorf("replace pod %s/%s: %w", c.Namespace, out.Replace.Name, err))
	} else {
		r.tell(c, v1beta1.EventRollingUpdate, "Update", "Replacing %s: %s", out.Replace.Name, out.Why)
	}
	return out, errors.Join(errs...)
}

func (r *controllerReconciler) label(ctx context.Context, c *v1beta1.Controller, l cluster.PodLabel) error {
	value := "null"
	if l.Value != "" {
		value = fmt.Sprintf("%q", l.Value)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:%s}}}`, l.Pod.UID, v1beta1.LabelControllerActive, value)
	err := r.Patch(ctx, l.Pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label pod %s/%s: %w", c.Namespace, l.Pod.Name, err)
	}
	if err == nil && l.Value != "" {
		r.tell(c, v1beta1.EventControllerActive, "Label", "%s is in control", l.Pod.Name)
	}
	return nil
}

// recreate deletes what Kubernetes can't change. It is made again once it is gone.
func (r *controllerReconciler) recreate(ctx context.Context, c *v1beta1.Controller, what *cluster.Recreate) error {
	if what == nil {
		return nil
	}
	how := metav1.DeletePropagationForeground
	if what.KeepPods {
		how = metav1.DeletePropagationOrphan
	}
	uid := what.Object.GetUID()
	live, ok := what.Object.(client.Object)
	if !ok || !metav1.IsControlledBy(live, c) {
		return nil // the next apply says whose it is
	}
	if err := r.Delete(ctx, live, client.PropagationPolicy(how), client.Preconditions{UID: &uid}); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("delete StatefulSet %s/%s to make it anew: %w", c.Namespace, live.GetName(), err))
	}
	r.tell(c, v1beta1.EventDeleteSucceeded, "Delete", "Deleted StatefulSet %s to make it anew: %s", live.GetName(), what.Why)
	return fmt.Errorf("StatefulSet %s/%s: %w", c.Namespace, live.GetName(), act.ErrDeleting)
}

func (r *controllerReconciler) tell(c *v1beta1.Controller, reason, action, format string, args ...any) {
	r.applier.Recorder.Eventf(c, nil, corev1.EventTypeNormal, reason, action, format, args...)
}
