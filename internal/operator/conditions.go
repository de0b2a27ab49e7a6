package operator

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
)

// report is what a reconcile found out.
type report struct {
	// ready, and a sentence on what is ready or missing.
	ready       bool
	readyReason string
	message     string
	// moving means that it is on its way to what is wanted although it is ready.
	moving bool
	// problems need a person; err may go away by itself.
	problems []problem
	err      error
}

type problem struct{ reason, message string }

// conditions writes the three conditions of all kinds.
func (r report) conditions(conditions *[]metav1.Condition, generation int64) {
	set := func(kind string, is bool, reason, message string) {
		act.SetCondition(conditions, generation, kind, is, reason, message)
	}
	reason := r.readyReason
	if reason == "" {
		reason = v1beta1.ReasonWaitingForPods
		if r.ready {
			reason = v1beta1.ReasonAvailable
		}
	}
	set(v1beta1.ConditionReady, r.ready, reason, r.message)

	waiting := errors.Is(r.err, act.ErrDeleting)
	switch {
	case len(r.problems) > 0:
		var all []string
		for _, p := range r.problems {
			all = append(all, p.message)
		}
		set(v1beta1.ConditionDegraded, true, r.problems[0].reason, strings.Join(all, "\n"))
	case r.err != nil && !waiting:
		set(v1beta1.ConditionDegraded, true, v1beta1.ReasonSyncFailed, r.err.Error())
	default:
		set(v1beta1.ConditionDegraded, false, v1beta1.ReasonAsExpected, "")
	}

	progressing := (!r.ready || r.moving) && len(r.problems) == 0 && (r.err == nil || waiting)
	if progressing {
		if r.moving && r.ready {
			reason = v1beta1.ReasonWaitingForPods
		}
		set(v1beta1.ConditionProgressing, true, reason, r.message)
	} else {
		set(v1beta1.ConditionProgressing, false, v1beta1.ReasonAsExpected, "")
	}
}
