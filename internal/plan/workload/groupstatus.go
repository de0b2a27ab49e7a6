package workload

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the condition of a PodGroup of scheduling.k8s.io, as its API has them.
const (
	ReasonScheduled      = "Scheduled"
	ReasonUnschedulable  = "Unschedulable"
	ReasonSchedulerError = "SchedulerError"
)

// Scheduled returns the condition that tells how a PodGroup of scheduling.k8s.io stands, and
// whether it differs from the one that the group has. Once scheduled, a group stays that.
func (pg PodGroup) Scheduled(scheduled bool, reason, text string, now time.Time) (metav1.Condition, bool) {
	c := metav1.Condition{
		Type: pg.ScheduledCondition(), Status: metav1.ConditionFalse, Reason: reason, Message: text,
		ObservedGeneration: pg.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if scheduled {
		c.Status = metav1.ConditionTrue
	}
	for _, old := range pg.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == metav1.ConditionTrue {
			return old, false
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		return c, old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
	}
	return c, true
}
