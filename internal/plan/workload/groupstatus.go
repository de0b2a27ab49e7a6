package workload

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Reasons of the condition of a PodGroup of scheduling.k8s.io, as its API has them.
const (
	ReasonScheduled      = "Scheduled"
	ReasonUnschedulable  = "Unschedulable"
	ReasonSchedulerError = "SchedulerError"
)

// ReasonPreemption is the reason of DisruptionTarget that the API of scheduling.k8s.io has for a preemption.
const ReasonPreemption = "PreemptionByScheduler"

// Disruption returns the condition that tells why the job of a PodGroup ends; reason is that of its pods.
func Disruption(reason, message string, now metav1.Time) metav1.Condition {
	if reason == v1beta1.ReasonSlurmPreempted {
		reason = ReasonPreemption
	}
	return metav1.Condition{Type: conditionDisruption, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now}
}

// Undisrupted returns the condition that takes back what Disruption said, once the group has
// its nodes again, and false where nothing is to be taken back.
func (pg PodGroup) Undisrupted(message string, now time.Time) (metav1.Condition, bool) {
	for _, c := range pg.Conditions {
		if c.Type == conditionDisruption && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonScheduled, message
			c.LastTransitionTime, c.ObservedGeneration = metav1.NewTime(now), pg.Generation
			return c, true
		}
	}
	return metav1.Condition{}, false
}

const conditionDisruption = "DisruptionTarget"

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
