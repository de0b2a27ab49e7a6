package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
)

// finalizersOf are those finalizers that the operator sets on NodeSets.
func finalizersOf() []string { return []string{v1beta1.FinalizerDrain, v1beta1.FinalizerReservation} }

// addFinalizers sets those of want that are missing. None is added to an object that is being deleted.
func (r *nodeSetReconciler) addFinalizers(ctx context.Context, n *v1beta1.NodeSet, want []string) error {
	if n.DeletionTimestamp != nil {
		return nil
	}
	all := slices.Clone(n.Finalizers)
	for _, f := range want {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return r.patchFinalizers(ctx, n, all)
}

// keepFinalizers removes those of ours that aren't in want.
func (r *nodeSetReconciler) keepFinalizers(ctx context.Context, n *v1beta1.NodeSet, want []string) error {
	all := slices.DeleteFunc(slices.Clone(n.Finalizers), func(f string) bool {
		return slices.Contains(finalizersOf(), f) && !slices.Contains(want, f)
	})
	return r.patchFinalizers(ctx, n, all)
}

func (r *nodeSetReconciler) patchFinalizers(ctx context.Context, n *v1beta1.NodeSet, all []string) error {
	if slices.Equal(all, n.Finalizers) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "finalizers": all}})
	if err != nil {
		return err
	}
	live := &v1beta1.NodeSet{}
	live.Namespace, live.Name = n.Namespace, n.Name
	switch err := r.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch)); {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("patch finalizers of NodeSet %s/%s: it %w", n.Namespace, n.Name, act.ErrChanged)
	case err != nil:
		return fmt.Errorf("patch finalizers of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	n.Finalizers, n.ResourceVersion = live.Finalizers, live.ResourceVersion
	return nil
}
