package operator

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
)

// observe reads the facts of a NodeSet's plan. What it lists stays the informers': nobody may change it.
func (r *nodeSetReconciler) observe(ctx context.Context, n *v1beta1.NodeSet, c *v1beta1.Controller, view observe.View) (nodeset.Facts, error) {
	now := r.now()
	facts := nodeset.Facts{
		NodeSet: n, Controller: c, Now: now, Image: r.Images.Slurmd, ClusterDomain: r.ClusterDomain,
		NodeConditions: r.NodeConditions, NotBefore: r.failures.notBefore(n.UID, now),
	}
	sssd, err := r.key(ctx, n.Namespace, nodeset.SssdConf(n))
	if err != nil {
		return facts, err
	}
	facts.SssdHash = nodeset.Checksum(sssd)
	if facts.Pods, facts.Orphans, err = r.podsOf(ctx, n); err != nil {
		return facts, err
	}
	if facts.Nodes, err = r.kubeNodes(ctx); err != nil {
		return facts, err
	}
	if facts.Claims, err = r.claimsOf(ctx, n); err != nil {
		return facts, err
	}
	if facts.Revisions, err = r.revisionsOf(ctx, n); err != nil {
		return facts, err
	}
	facts.Slurm = nodeset.SlurmFacts{Known: view.Known, Why: view.Why, Nodes: view.Nodes, Deadlines: nodeset.Deadlines(facts.Pods, view.Nodes, view.JobsOn)}
	if view.Known && view.Reservations != nil && nodeset.NeedsReservation(n) {
		facts.Slurm.Reservation, err = reservationOf(ctx, view, n)
		facts.Slurm.ReservationKnown = err == nil
	}
	return facts, nil
}

// podsOf returns the pods that a NodeSet controls, and those with its labels that nobody does.
func (r *nodeSetReconciler) podsOf(ctx context.Context, n *v1beta1.NodeSet) (own, orphans []corev1.Pod, err error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(n.Namespace), client.MatchingLabels(nodeset.Selector(n.Name)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list pods of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	own, orphans = nodeset.Members(n, list.Items)
	return r.written.Apply(n.UID, own, r.now()), orphans, nil
}

func (r *nodeSetReconciler) kubeNodes(ctx context.Context) (map[string]*corev1.Node, error) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Kubernetes nodes: %w", err)
	}
	out := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

func (r *nodeSetReconciler) claimsOf(ctx context.Context, n *v1beta1.NodeSet) (map[string]*corev1.PersistentVolumeClaim, error) {
	if len(n.Spec.VolumeClaimTemplates) == 0 {
		return nil, nil
	}
	var list corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &list, client.InNamespace(n.Namespace), client.MatchingLabels(nodeset.Selector(n.Name))); err != nil {
		return nil, fmt.Errorf("list claims of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	out := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

func (r *nodeSetReconciler) revisionsOf(ctx context.Context, n *v1beta1.NodeSet) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(n.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	return nodeset.RevisionsOf(n, list.Items), nil
}

// reservationOf reads a NodeSet's maintenance reservation, nil where there is none.
func reservationOf(ctx context.Context, view observe.View, n *v1beta1.NodeSet) (*slurm.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, reservationPatience)
	defer cancel()
	r, err := view.Reservations.Reservation(ctx, nodeset.ReservationName(n))
	if errors.Is(err, slurm.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// ignoreGone makes it no error that Slurm doesn't have what is to go or to change.
func ignoreGone(err error) error {
	if errors.Is(err, slurm.ErrNotFound) {
		return nil
	}
	return err
}
