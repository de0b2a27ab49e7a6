package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodTrouble(t *testing.T) {
	ended := func(code int32, reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	const parse = "slurmctld: error: _parse_next_key: Parsing error at unrecognized key: FooBar\nslurmctld: fatal: Unable to process configuration file\nentrypoint: slurmctld ended (code 1)\n"
	cases := map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"nothing known": {corev1.PodStatus{}, ""},
		"starting":      {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: waiting("ContainerCreating", "")}}}, ""},
		"running again": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, LastTerminationState: ended(1, "Error", parse)}}}, ""},
		"ended well":    {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended(0, "Completed", "")}}}, ""},
		"a bad line": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "slurmctld", RestartCount: 3, State: waiting("CrashLoopBackOff", "back-off"), LastTerminationState: ended(1, "Error", parse)}}},
			"pod p, container slurmctld ended with code 1, and was started 3 times since: slurmctld: error: _parse_next_key: Parsing error at unrecognized key: FooBar; slurmctld: fatal: Unable to process configuration file"},
		"a log with times": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended(1, "Error", "[2026-05-01T10:00:00.123] fatal: no\n[2026-05-01T10:00:00.124] bye\n")}}},
			"pod p, container c ended with code 1: fatal: no"},
		"no complaint":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended(127, "Error", "a\nsh: slurmctld: not found\n")}}}, "pod p, container c ended with code 127: sh: slurmctld: not found"},
		"silence":       {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended(139, "Error", "")}}}, "pod p, container c ended with code 139"},
		"out of memory": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: ended(137, "OOMKilled", "")}}}, "pod p, container c was killed: it needs more memory than its limit"},
		"no image":      {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "logfile", State: waiting("ErrImagePull", "not found")}}}, "pod p, container logfile can't start (ErrImagePull): not found"},
		"no node": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}},
			"pod p is not placed on a node: 0/3 nodes are available"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PodTrouble(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tc.status}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
