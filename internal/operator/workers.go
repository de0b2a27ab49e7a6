package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// update writes to a Slurm node. Before its state changes, its reason is read again:
// somebody may have written another one since.
func (c *carrier) update(ctx context.Context, s nodeset.Step) error {
	u := s.Side.Update
	if u.Action != workernode.Describe {
		node, known, err := c.view.Refresh(ctx, s.Node)
		if err != nil || !known {
			return err
		}
		foreign := node.Reason != "" && !workernode.OwnsReason(node.Reason)
		lifts := u.Action != workernode.Drain
		if foreign && node.Reason != u.Change.Reason || lifts && !workernode.OwnsReason(node.Reason) {
			return nil
		}
	}
	err := c.view.Slurm.UpdateNode(ctx, s.Node, u.Change)
	if u.Blame != "" && errors.Is(err, slurm.ErrInvalid) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused = append(c.refused, fmt.Sprintf("%s: %v", u.Blame, err))
		return nil
	}
	if errors.Is(err, slurm.ErrNotFound) {
		// Its record has just gone: what comes next is planned without it.
		_, _, err = c.view.Refresh(ctx, s.Node)
		return err
	}
	if err != nil {
		return err
	}
	if reason := eventOf(u); reason != "" {
		c.recorder.Eventf(c.set, nil, corev1.EventTypeNormal, reason, "Update", "Slurm node %s: %s: %s", s.Node, u.Action, u.Why)
	}
	_, _, err = c.view.Refresh(ctx, s.Node)
	return err
}

// eventOf is the reason of an update's event, empty for none.
func eventOf(u *workernode.Update) string {
	switch {
	case u.Cordon:
		return v1beta1.EventNodeCordon
	case u.Action == workernode.Drain:
		return v1beta1.EventSlurmNodeDrain
	case u.Action == workernode.Describe:
		return ""
	}
	return v1beta1.EventSlurmNodeResume
}

// mark changes a pod's labels and annotations.
func (c *carrier) mark(ctx context.Context, s nodeset.Step) error {
	meta := map[string]any{"uid": s.Pod.UID}
	if len(s.Side.Labels) > 0 {
		meta["labels"] = s.Side.Labels
	}
	if len(s.Side.Annotations) > 0 {
		meta["annotations"] = s.Side.Annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	return ignoreOther(c.Patch(ctx, s.Pod, client.RawPatch(types.MergePatchType, patch)))
}

// mirror writes those pod conditions that are about Slurm; all others stay with who wrote them.
func (c *carrier) mirror(ctx context.Context, s nodeset.Step) error {
	conditions := []any{}
	for _, condition := range s.Side.Conditions {
		conditions = append(conditions, condition)
	}
	for _, kind := range s.Side.Gone {
		conditions = append(conditions, map[string]any{"$patch": "delete", "type": kind})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.Pod.UID}, "status": map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, s.Pod, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return ignoreOther(err)
	}
	if s.Side.Drained != "" {
		c.recorder.Eventf(s.Pod, c.set, corev1.EventTypeWarning, v1beta1.EventSlurmNodeDrained, "Mirror", "%s", s.Side.Drained)
	}
	return nil
}

// ignoreOther makes it no error that the pod is gone, or another one of its name is there.
func ignoreOther(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
