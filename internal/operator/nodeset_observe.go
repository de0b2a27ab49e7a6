package operator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// observe reads the facts of a NodeSet's plan. What it lists stays the informers': nobody may change it.
func (r *nodeSetReconciler) observe(ctx context.Context, n *v1beta1.NodeSet, c *v1beta1.Controller, view observe.View) (nodeset.Facts, error) {
	now := r.now()
	facts := nodeset.Facts{
		NodeSet: n, Controller: c, Now: now, Image: r.Images.Slurmd, ClusterDomain: r.ClusterDomain,
		NodeConditions: r.NodeConditions, NotBefore: r.failures.notBefore(n.UID, now),
	}
	var err error
	if facts.SssdConf, err = r.key(ctx, n.Namespace, nodeset.SssdConf(n)); err != nil {
		return facts, err
	}
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
	facts.Slurm = nodeset.SlurmFacts{Known: view.Known, Why: view.Why, Nodes: view.Nodes, Deadlines: deadlines(view, facts.Pods)}
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
	own = make([]corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		switch o := metav1.GetControllerOfNoCopy(&list.Items[i]); {
		case o == nil:
			orphans = append(orphans, list.Items[i])
		case o.UID == n.UID:
			own = append(own, list.Items[i])
		}
	}
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

// revisionsOf finds revisions by their owner: those of the published operator have no labels to find them by.
func (r *nodeSetReconciler) revisionsOf(ctx context.Context, n *v1beta1.NodeSet) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(n.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions of NodeSet %s/%s: %w", n.Namespace, n.Name, err)
	}
	var out []appsv1.ControllerRevision
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], n) {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

// deadlines are when the last running job of each busy worker must have ended.
func deadlines(view observe.View, pods []corev1.Pod) map[string]time.Time {
	out := map[string]time.Time{}
	for i := range pods {
		name := nodeset.SlurmNode(&pods[i])
		if n, known := view.Nodes[name]; !known || !workernode.Busy(n) {
			continue
		}
		for _, job := range view.JobsOn(name) {
			if end := deadline(job); job.States.Has(slurm.JobRunning) && end.After(out[name]) {
				out[name] = end
			}
		}
	}
	return out
}

// deadline is when a running job must have ended.
func deadline(job slurm.Job) time.Time {
	minutes, finite := job.TimeLimit.Get()
	if !finite || minutes > math.MaxInt32 {
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // the last time that RFC 3339 can say
	}
	return job.StartTime.Add(time.Duration(minutes) * time.Minute)
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
