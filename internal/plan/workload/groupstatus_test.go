package workload

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestScheduledCondition(t *testing.T) {
	before, now := time.Unix(100, 0), time.Unix(200, 0)
	condition := func(kind string, status metav1.ConditionStatus, reason, text string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text, LastTransitionTime: metav1.NewTime(before)}
	}
	const kind = "PodGroupInitiallyScheduled"
	for name, c := range map[string]struct {
		had       []metav1.Condition
		scheduled bool
		reason    string
		changed   bool
		status    metav1.ConditionStatus
		since     time.Time
	}{
		"the first one":               {nil, false, ReasonUnschedulable, true, metav1.ConditionFalse, now},
		"the same again":              {[]metav1.Condition{condition(kind, metav1.ConditionFalse, ReasonUnschedulable, "text")}, false, ReasonUnschedulable, false, metav1.ConditionFalse, before},
		"another reason":              {[]metav1.Condition{condition(kind, metav1.ConditionFalse, ReasonUnschedulable, "text")}, false, ReasonSchedulerError, true, metav1.ConditionFalse, before},
		"scheduled":                   {[]metav1.Condition{condition(kind, metav1.ConditionFalse, ReasonUnschedulable, "text")}, true, ReasonScheduled, true, metav1.ConditionTrue, now},
		"it stays so":                 {[]metav1.Condition{condition(kind, metav1.ConditionTrue, ReasonScheduled, "done")}, false, ReasonUnschedulable, false, metav1.ConditionTrue, before},
		"a condition of another type": {[]metav1.Condition{condition("DisruptionTarget", metav1.ConditionTrue, "x", "y")}, false, ReasonUnschedulable, true, metav1.ConditionFalse, now},
	} {
		pg := PodGroup{APIVersion: "scheduling.k8s.io/v1beta1", Conditions: c.had}
		got, changed := pg.Scheduled(c.scheduled, c.reason, "text", now)
		if changed != c.changed || got.Status != c.status || got.Type != kind || !got.LastTransitionTime.Time.Equal(c.since) {
			t.Errorf("%s: changed %v, %+v", name, changed, got)
		}
	}
}
