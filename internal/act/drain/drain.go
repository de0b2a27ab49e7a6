// Package drain carries out what people decide about nodes, in both worlds.
package drain

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
)

// Nodes changes nodes of Slurm.
type Nodes interface {
	UpdateNode(ctx context.Context, name string, u slurm.NodeUpdate) error
}

// Actor carries changes out.
type Actor struct {
	Kube  kubernetes.Interface
	Slurm Nodes
}

// fieldOwner is who the API server is told has changed a node.
const fieldOwner = "slinky"

// Node changes a node of Slurm.
func (a Actor) Node(ctx context.Context, c view.SlurmChange) error {
	if err := a.Slurm.UpdateNode(ctx, c.Node, c.Update); err != nil {
		return fmt.Errorf("Slurm node %s: %w", c.Node, err)
	}
	return nil
}

// Cordon changes a node of Kubernetes.
func (a Actor) Cordon(ctx context.Context, c view.CordonChange) error {
	var unschedulable any // null takes the field away
	if c.Unschedulable {
		unschedulable = true
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": c.Annotations},
		"spec":     map[string]any{"unschedulable": unschedulable},
	})
	if err == nil {
		_, err = a.Kube.CoreV1().Nodes().Patch(ctx, c.Node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldOwner})
	}
	if err != nil {
		return fmt.Errorf("Kubernetes node %s: %w", c.Node, err)
	}
	return nil
}
