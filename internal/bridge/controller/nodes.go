package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/slurm"
)

// nodeMirror shows Kubernetes nodes in Slurm as external nodes.
type nodeMirror struct {
	*Bridge
	registrar *registrar
	said      notes
}

// Reconcile handles one node, by its name in Slurm.
func (r *nodeMirror) Reconcile(ctx context.Context, name string) (ctrl.Result, error) {
	if !r.View.Synced() {
		// What isn't known may not be taken for absent.
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	f, err := r.nodeFacts(ctx, name)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := mirror.Make(f)
	if f.Slurm != nil || p.Create == nil {
		r.registrar.forget(name)
	}
	if registersOnly(p) {
		// Slurm itself refuses to register a node twice, so a new one is spared the look.
		if done, err := r.registrar.register(*p.Create, f.Now); err != nil || !done {
			r.report(name, f.Kube, p)
			return ctrl.Result{}, err // the end of the registration is told
		}
		p.Create, p.Again = nil, showsWithin
	}
	if p.Changes() {
		// The view may be behind: look again before changing anything.
		if _, err := r.View.RefreshNode(ctx, name); err != nil {
			return ctrl.Result{}, err
		}
		f.Slurm = r.slurmNode(name)
		if p.Delete && p.Create == nil {
			f.NamedBy = r.namedBy(name)
		}
		p = mirror.Make(f)
	}
	if err := r.carryOut(ctx, name, p); err != nil {
		return ctrl.Result{}, err
	}
	if p.Changes() {
		if _, err := r.View.RefreshNode(ctx, name); err != nil {
			return ctrl.Result{}, err
		}
	}
	result := ctrl.Result{RequeueAfter: p.Again}
	if f.Kube == nil {
		r.said.forget(name)
		return result, nil
	}
	r.report(name, f.Kube, p)
	if p.Condition != nil {
		if err := r.setCondition(ctx, f.Kube, *p.Condition); err != nil {
			return ctrl.Result{}, err
		}
	}
	if p.SetTaints {
		return again(r.setTaints(ctx, f.Kube, p.Taints))
	}
	return result, nil
}

// registersOnly tells whether a plan changes nothing that Slurm has.
func registersOnly(p mirror.Plan) bool { return p.Create != nil && p.Update == nil && !p.Delete }

// kubeNode returns the Kubernetes node of a name in Slurm, nil if there is none.
func (r *nodeMirror) kubeNode(ctx context.Context, name string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.MatchingFields{indexSlurmName: name}); err != nil {
		return nil, fmt.Errorf("find the Kubernetes node of Slurm node %s: %w", name, err)
	}
	var found *corev1.Node
	for i := range nodes.Items {
		// One whose label claims the name goes before the one that bears it.
		if found == nil || found.Name == name {
			found = &nodes.Items[i]
		}
	}
	return found, nil
}

func (r *nodeMirror) slurmNode(name string) *slurm.Node {
	n, ok := r.View.Node(name)
	if !ok {
		return nil
	}
	return &n
}

func (r *nodeMirror) carryOut(ctx context.Context, name string, p mirror.Plan) error {
	l := log.FromContext(ctx)
	if p.Update != nil {
		l.Info("Update the node in Slurm", "state", p.Update.State, "reason", p.Update.Reason)
		if err := r.Slurm.UpdateNode(ctx, name, *p.Update); err != nil {
			return err
		}
	}
	if p.Delete {
		l.Info("Remove the node from Slurm", "anew", p.Anew)
		if err := r.Slurm.DeleteNode(ctx, name); err != nil && !errors.Is(err, slurm.ErrNotFound) {
			return err
		}
	}
	if p.Create == nil {
		return nil
	}
	l.Info("Register the node in Slurm", "cpus", p.Create.CPUs, "sockets", p.Create.Sockets, "reservedCPUs", len(p.Create.ReservedCPUs),
		"memoryMiB", p.Create.RealMemory, "gres", p.Create.GRES, "features", p.Create.Features)
	err := r.Slurm.CreateNode(ctx, *p.Create)
	var e *slurm.Error
	if errors.As(err, &e) && e.Code == slurmNodeExists {
		return nil
	}
	return err
}

// setTaints writes all taints, since they are one list, bound to the version that they were planned from.
func (r *nodeMirror) setTaints(ctx context.Context, node *corev1.Node, taints []corev1.Taint) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the taints of node %s: %w", node.Name, err)
	}
	return nil
}
