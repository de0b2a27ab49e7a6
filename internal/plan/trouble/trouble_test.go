package trouble

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOf(t *testing.T) {
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
			if got := Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tc.status}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOfWorker(t *testing.T) {
	const words = "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory\n"
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: words}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}
	}
	const want = "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory"
	cases := map[string]struct {
		status corev1.ContainerStatus
		want   string
	}{
		"starting":         {corev1.ContainerStatus{State: waiting("ContainerCreating")}, ""},
		"ended once":       {corev1.ContainerStatus{State: ended}, ""},
		"started again":    {corev1.ContainerStatus{State: running, RestartCount: 1, LastTerminationState: ended}, ""},
		"ended twice":      {corev1.ContainerStatus{State: ended, RestartCount: 1}, "pod p, container slurmd ended with code 1: " + want},
		"waits to go on":   {corev1.ContainerStatus{State: waiting("CrashLoopBackOff"), RestartCount: 1, LastTerminationState: ended}, "pod p, container slurmd ended with code 1: " + want},
		"tries once more":  {corev1.ContainerStatus{State: running, RestartCount: 4, LastTerminationState: ended}, "pod p, container slurmd ended with code 1, and was started 4 times since: " + want},
		"works after that": {corev1.ContainerStatus{Ready: true, State: running, RestartCount: 4, LastTerminationState: ended}, ""},
		"no image":         {corev1.ContainerStatus{State: waiting("ErrImagePull")}, "pod p, container slurmd can't start (ErrImagePull): m"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.status.Name = "slurmd"
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}}}
			if got := OfWorker(pod); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	unplaced := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "m"}}}}
	if got := OfWorker(unplaced); got != "" {
		t.Errorf("of a worker that waits for a node: %q", got)
	}
}

func TestFallback(t *testing.T) {
	const log = "slurmctld: fatal: Can't find plugin for select/foo\nentrypoint: slurmctld ended (code 1)\n" +
		"entrypoint: slurmctld doesn't start with its configuration: it goes on with the configuration of 2026-05-01T10:00:00Z\n"
	pod := func(state corev1.ContainerState, message string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "slurmctld", Ready: true,
			State: state, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}}}}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	const want = "slurmctld refuses its configuration and works on with the configuration of 2026-05-01T10:00:00Z: slurmctld: fatal: Can't find plugin for select/foo. " +
		"Correct spec.extraConf or the files of spec.configFileRefs; to try the same again, delete pod p"
	if got := Fallback(pod(running, log)); got != want {
		t.Errorf("got %q", got)
	}
	for name, pod := range map[string]*corev1.Pod{
		"another crash":  pod(running, "slurmctld: fatal: no\nentrypoint: slurmctld ended (code 1)\n"),
		"not running":    pod(corev1.ContainerState{}, log),
		"the first time": {Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: running}}}},
	} {
		if got := Fallback(pod); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
