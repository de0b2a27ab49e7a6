package controller

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// podGroupVersions are those of scheduling.k8s.io that have PodGroups, the newest first.
func podGroupVersions() []string { return []string{"v1beta1", "v1alpha3", "v1alpha2"} }

// disruptGroup says on a pod's group of scheduling.k8s.io why its job ended, in the condition that its API has for that.
// The pod ends whether or not it can be said.
func (r *podReaper) disruptGroup(ctx context.Context, pod *corev1.Pod, reason, message string) {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil || *g.PodGroupName == "" {
		return
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: *g.PodGroupName}
	if err := r.writeDisruption(ctx, key, workload.Disruption(reason, message, metav1.Now())); err != nil {
		log.FromContext(ctx).Error(err, "Can't tell a PodGroup why its pods end", "group", key.String())
	}
}

func (r *podReaper) writeDisruption(ctx context.Context, key types.NamespacedName, c metav1.Condition) error {
	u, err := r.podGroup(ctx, key)
	if err != nil || u == nil {
		return err
	}
	group, err := workload.PodGroupOf(u)
	if err != nil {
		return err
	}
	if had := meta.FindStatusCondition(group.Conditions, c.Type); had != nil &&
		had.Status == c.Status && had.Reason == c.Reason && had.Message == c.Message {
		return nil // another of its pods has said it
	}
	c.ObservedGeneration = group.Generation
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": group.UID},
		"status":   map[string]any{"conditions": []metav1.Condition{c}},
	})
	if err != nil {
		return fmt.Errorf("condition of PodGroup %s: %w", key, err)
	}
	err = r.Client.Status().Patch(ctx, u, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the condition of PodGroup %s: %w", key, err)
	}
	return nil
}

// podGroup reads a PodGroup in the newest version that is served, nil where there is none.
func (r *podReaper) podGroup(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	for _, version := range podGroupVersions() {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: schedulingv1beta1.GroupName, Version: version, Kind: "PodGroup"})
		err := r.Live.Get(ctx, key, u)
		switch {
		case meta.IsNoMatchError(err):
			continue
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read PodGroup %s: %w", key, err)
		}
		return u, nil
	}
	return nil, nil
}
