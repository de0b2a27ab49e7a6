package nodeset

import (
	"slices"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// DeletionDrainTimeout is how long the jobs on a deleted NodeSet's workers are waited for
// where the user doesn't say.
const DeletionDrainTimeout = 10 * time.Minute

// afterDeadline is how long pods may take to end once the time to drain is over.
const afterDeadline = 2 * time.Minute

func (p *planner) deleting() bool { return p.NodeSet.DeletionTimestamp != nil }

// drainTimeout is how long jobs are waited for when the NodeSet is deleted.
func (p *planner) drainTimeout() time.Duration {
	if d := p.NodeSet.Spec.DeletionDrainTimeout; d != nil {
		return d.Duration
	}
	return DeletionDrainTimeout
}

// overdue tells whether a deleted NodeSet's time to drain is over.
func (p *planner) overdue() bool {
	left := p.NodeSet.DeletionTimestamp.Add(p.drainTimeout()).Sub(p.Now)
	if left > 0 {
		p.again(left)
	}
	return left <= 0
}

// finalizers says what a deletion of the NodeSet has to wait for. A NodeSet whose workers run
// nothing needs none, so that it can also be deleted when no operator is there.
func (p *planner) finalizers() {
	if p.deleting() && p.letGo() {
		return
	}
	if p.drainsFirst() {
		p.plan.Finalizers = append(p.plan.Finalizers, v1beta1.FinalizerDrain)
	}
	if p.reserved() {
		p.plan.Finalizers = append(p.plan.Finalizers, v1beta1.FinalizerReservation)
	}
}

// letGo tells whether a deleted NodeSet must not be kept: its cluster goes too, its pods
// are to stay, or the last deadline has passed.
func (p *planner) letGo() bool {
	deadline := p.NodeSet.DeletionTimestamp.Add(p.drainTimeout() + afterDeadline)
	return p.Controller.DeletionTimestamp != nil || slices.Contains(p.NodeSet.Finalizers, "orphan") || p.Now.After(deadline)
}

// drainsFirst tells whether workers have to be drained before the NodeSet may go.
func (p *planner) drainsFirst() bool {
	if p.drainTimeout() <= 0 {
		return false
	}
	held := slices.Contains(p.NodeSet.Finalizers, v1beta1.FinalizerDrain)
	if p.deleting() {
		return held && (len(p.Pods) > 0 || p.leftRecords)
	}
	if p.NodeSet.Spec.DeletionDrainTimeout != nil {
		return true
	}
	if !p.Slurm.Known {
		return held
	}
	return slices.ContainsFunc(p.workers(), func(w worker) bool { return p.Slurm.busy(w.node) })
}
