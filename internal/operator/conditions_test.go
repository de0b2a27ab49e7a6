package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/act"
)

func TestConditions(t *testing.T) {
	cases := map[string]struct {
		report report
		want   string
	}{
		"ready":     {report{ready: true, message: "up"}, "Ready=True Available, Degraded=False AsExpected, Progressing=False AsExpected"},
		"starting":  {report{message: "soon"}, "Ready=False WaitingForPods, Degraded=False AsExpected, Progressing=True WaitingForPods"},
		"problem":   {report{problems: []problem{{"InvalidSpec", "bad"}}}, "Ready=False WaitingForPods, Degraded=True InvalidSpec, Progressing=False AsExpected"},
		"error":     {report{err: errors.New("x")}, "Ready=False WaitingForPods, Degraded=True SyncFailed, Progressing=False AsExpected"},
		"ends":      {report{err: fmt.Errorf("x: %w", act.ErrDeleting)}, "Ready=False WaitingForPods, Degraded=False AsExpected, Progressing=True WaitingForPods"},
		"still up":  {report{ready: true, problems: []problem{{"InvalidSpec", "bad"}}}, "Ready=True Available, Degraded=True InvalidSpec, Progressing=False AsExpected"},
		"elsewhere": {report{ready: true, readyReason: "External"}, "Ready=True External, Degraded=False AsExpected, Progressing=False AsExpected"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			tc.report.conditions(&conditions, 7)
			var got []string
			for _, c := range conditions {
				got = append(got, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
				if c.ObservedGeneration != 7 {
					t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
