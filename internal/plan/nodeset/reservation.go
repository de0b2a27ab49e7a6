package nodeset

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// NeedsReservation tells whether a NodeSet's plan depends on its reservation.
func NeedsReservation(n *v1beta1.NodeSet) bool {
	return n.Spec.UpdateStrategy.Type == v1beta1.UpdateScheduled || slices.Contains(n.Finalizers, v1beta1.FinalizerReservation)
}

// ReservationName is the name of a NodeSet's maintenance reservation in Slurm.
func ReservationName(n *v1beta1.NodeSet) string { return v1beta1.ReservationPrefix + n.Name }

const flagForceStart = "FORCE_START"

// reserve keeps the maintenance reservation of a ScheduledUpdate. While Slurm doesn't answer
// nothing about it changes.
func (p *planner) reserve() {
	if !p.Slurm.Known || !p.Slurm.ReservationKnown || !NeedsReservation(p.NodeSet) {
		return
	}
	have := p.Slurm.Reservation
	if !p.wantsReservation() {
		if have != nil {
			p.step(Step{Action: DeleteReservation, Reservation: &slurm.ReservationRequest{Name: have.Name}, Reason: "the update strategy has no use for it"})
		}
		return
	}
	want := p.reservation()
	switch {
	case have == nil:
		if p.mayReserve(want) {
			p.reserves = true
			p.step(Step{Action: CreateReservation, Reservation: &want, Reason: "spec.updateStrategy.scheduledUpdate"})
		}
	default:
		p.updateReservation(*have, want)
	}
}

func (p *planner) wantsReservation() bool {
	s := p.NodeSet.Spec.UpdateStrategy
	return s.Type == v1beta1.UpdateScheduled && s.ScheduledUpdate != nil && s.ScheduledUpdate.StartTime != nil && p.desired() > 0 && !p.deleting()
}

// reservation is what the reservation should be.
func (p *planner) reservation() slurm.ReservationRequest {
	s := p.NodeSet.Spec.UpdateStrategy.ScheduledUpdate
	length := 30 * time.Minute
	if s.Duration != nil {
		length = s.Duration.Duration
	}
	flags := map[string]bool{"MAINT": true, "IGNORE_JOBS": true}
	for _, f := range s.Flags {
		if f = strings.ToUpper(strings.TrimSpace(f)); f != "" && f != flagForceStart {
			flags[f] = true
		}
	}
	var nodes []string
	for _, w := range p.live {
		if _, registered := p.Slurm.Nodes[w.node]; registered {
			nodes = append(nodes, w.node)
		}
	}
	slices.Sort(nodes)
	return slurm.ReservationRequest{
		Name: ReservationName(p.NodeSet), Nodes: nodes, Users: []string{"slurm"}, Flags: slices.Sorted(maps.Keys(flags)),
		StartTime: s.StartTime.Time, Duration: slurm.NumberOf(uint64(max(1, length/time.Minute))),
	}
}

// mayReserve tells whether a reservation that isn't there should be. One that has been there
// for this start time and is gone was over.
func (p *planner) mayReserve(want slurm.ReservationRequest) bool {
	if len(want.Nodes) == 0 || !slices.ContainsFunc(want.Nodes, func(name string) bool {
		return p.Slurm.Nodes[name].States.HasAny(slurm.NodeIdle, slurm.NodeAllocated, slurm.NodeMixed)
	}) {
		return false
	}
	if want.StartTime.After(p.Now) {
		return true
	}
	forced := slices.ContainsFunc(p.NodeSet.Spec.UpdateStrategy.ScheduledUpdate.Flags, func(f string) bool { return strings.EqualFold(f, flagForceStart) })
	return forced && !p.recordedStart().Equal(want.StartTime)
}

// updateReservation brings a reservation to what it should be. One that repeats has moved its
// start on by itself; only another start in the spec moves it.
func (p *planner) updateReservation(have slurm.Reservation, want slurm.ReservationRequest) {
	change := slurm.ReservationRequest{Name: have.Name}
	changed := false
	running := !p.Now.Before(have.StartTime)
	if !p.recordedStart().Equal(want.StartTime) && !have.StartTime.Equal(want.StartTime) && !running {
		change.StartTime, changed = want.StartTime, true
	}
	length, _ := want.Duration.Get()
	if have.EndTime.Sub(have.StartTime) != time.Duration(length)*time.Minute {
		change.Duration, changed = want.Duration, true
	}
	if nodes, err := hostlist.Expand(have.Nodes); err == nil && !slices.Equal(slices.Sorted(slices.Values(nodes)), want.Nodes) && len(want.Nodes) > 0 {
		change.Nodes, changed = want.Nodes, true
	}
	for _, f := range want.Flags {
		if !slices.Contains(have.Flags, f) && !p.flagsTried() {
			change.Flags, changed = append(change.Flags, f), true
		}
	}
	if changed {
		p.step(Step{Action: UpdateReservation, Reservation: &change, Reason: "spec.updateStrategy.scheduledUpdate or the nodes have changed"})
	}
}

// flagsTried tells whether the reservation was made for this generation of the spec: Slurm
// doesn't show every flag that it was given.
func (p *planner) flagsTried() bool {
	c := meta.FindStatusCondition(p.NodeSet.Status.Conditions, v1beta1.ConditionReservationCreated)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.NodeSet.Generation
}

// recordedStart is the start time that the condition keeps: that of the reservation made last.
func (p *planner) recordedStart() time.Time {
	c := meta.FindStatusCondition(p.NodeSet.Status.Conditions, v1beta1.ConditionReservationCreated)
	if c == nil {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// inMaintenance tells whether a Slurm node is in the NodeSet's maintenance window now.
func (p *planner) inMaintenance(node string) bool {
	n, known := p.Slurm.Nodes[node]
	return known && p.Slurm.Known && n.States.Has(slurm.NodeMaintenance) && n.Reservation == ReservationName(p.NodeSet)
}

// reserved tells whether the NodeSet must not go before its reservation.
func (p *planner) reserved() bool {
	held := slices.Contains(p.NodeSet.Finalizers, v1beta1.FinalizerReservation)
	if !p.Slurm.Known || !p.Slurm.ReservationKnown {
		return held
	}
	return p.Slurm.Reservation != nil && NeedsReservation(p.NodeSet) || p.reserves
}

// reservationCondition tells about the reservation as the published operator does: the time
// of the condition's transition is the configured start, so that a window that is over isn't
// opened again.
func (p *planner) reservationCondition(conditions []metav1.Condition) []metav1.Condition {
	old := meta.FindStatusCondition(conditions, v1beta1.ConditionReservationCreated)
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == v1beta1.ConditionReservationCreated })
	if !p.wantsReservation() {
		return conditions
	}
	now := metav1.Condition{Type: v1beta1.ConditionReservationCreated, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonReservationNotExists,
		Message: "Slurm has no reservation " + ReservationName(p.NodeSet), ObservedGeneration: p.NodeSet.Generation}
	switch {
	case !p.Slurm.Known || !p.Slurm.ReservationKnown:
		if old == nil {
			return conditions
		}
		now = *old
	case p.Slurm.Reservation != nil || p.reserves:
		now.Status, now.Reason = metav1.ConditionTrue, v1beta1.ReasonReservationCreated
		now.Message = "Slurm has the reservation " + ReservationName(p.NodeSet)
		now.LastTransitionTime = *p.NodeSet.Spec.UpdateStrategy.ScheduledUpdate.StartTime
	case old != nil:
		now.LastTransitionTime = old.LastTransitionTime
	default:
		now.LastTransitionTime = metav1.NewTime(time.Unix(0, 0))
	}
	return append(conditions, now)
}
