package nodeset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// TestAPodThatCannotBeBuiltChangesNoWorker: a template that can't take the workers' place drains none of them.
func TestAPodThatCannotBeBuiltChangesNoWorker(t *testing.T) {
	cases := map[string]struct {
		change func(*v1beta1.NodeSetSpec)
		want   string
	}{
		"slurmd":    {func(s *v1beta1.NodeSetSpec) { s.Slurmd = raw(`{"env":1}`) }, "spec.slurmd: "},
		"logfile":   {func(s *v1beta1.NodeSetSpec) { s.LogFile = raw(`{"image":1}`) }, "spec.logfile: "},
		"template":  {func(s *v1beta1.NodeSetSpec) { s.Template.PodSpec = raw(`{"tolerations":"all"}`) }, "spec.template.spec: "},
		"hostname":  {func(s *v1beta1.NodeSetSpec) { s.Template.PodSpec = raw(`{"hostname":"Bad_Name"}`) }, "spec.template.spec.hostname gives"},
		"extraConf": {func(s *v1beta1.NodeSetSpec) { s.ExtraConf = "foo" }, "spec.extraConf: "},
		"memory":    {func(s *v1beta1.NodeSetSpec) { s.Slurmd = raw(`{"resources":{"limits":{"memory":"500m"}}}`) }, "memory is 500m, less than the MiB"},
		"claims": {func(s *v1beta1.NodeSetSpec) {
			s.ExtraConf = "Weight=5"
			s.VolumeClaimTemplates = []v1beta1.RawObject{raw(`{"spec":7}`)}
		}, "spec.volumeClaimTemplates[0]: "},
	}
	strategies := []v1beta1.UpdateStrategyType{v1beta1.UpdateRolling, v1beta1.UpdateScheduled, v1beta1.UpdateOnDelete}
	for name, tc := range cases {
		for _, mode := range []v1beta1.ScalingMode{v1beta1.ScalingModeStatefulSet, v1beta1.ScalingModeDaemonSet} {
			if name == "hostname" && mode == v1beta1.ScalingModeDaemonSet {
				continue // there, workers have the names of their Kubernetes nodes
			}
			for _, strategy := range strategies {
				t.Run(strings.Join([]string{name, string(mode), string(strategy)}, " "), func(t *testing.T) {
					f := facts(2).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE")
					f.NodeSet.Spec.ScalingMode, f.NodeSet.Spec.UpdateStrategy.Type = mode, strategy
					for i := range f.Pods {
						f.Pods[i].Labels[v1beta1.LabelNodeSetScalingMode] = string(mode)
					}
					f.Pods[0].Status.Conditions = nil // one that isn't ready would be replaced at once
					tc.change(&f.NodeSet.Spec)
					plan := Make(f)
					if len(plan.Problems) != 1 || plan.Problems[0].Reason != v1beta1.ReasonInvalidSpec || !strings.Contains(plan.Problems[0].Message, tc.want) {
						t.Errorf("got %v, want one with %q", plan.Problems, tc.want)
					}
					for _, s := range plan.Steps {
						switch s.Action {
						case DeletePod, Drain, CreatePod, CreateRevision, DeleteRevision, CreateReservation:
							t.Errorf("it would %s", s)
						}
					}
				})
			}
		}
	}
}

// TestScaleInGoesOnWithAPodThatCannotBeBuilt: that needs no new pod.
func TestScaleInGoesOnWithAPodThatCannotBeBuilt(t *testing.T) {
	f := facts(1).withPod("cpu-0", "IDLE").withPod("cpu-1", "IDLE")
	f.NodeSet.Spec.Slurmd = raw(`{"env":1}`)
	if s := actions(Make(f), Drain); len(s) != 1 || s[0].Node != "cpu-1" {
		t.Errorf("it would %v, want to drain cpu-1", s)
	}
}

func actions(p Plan, kind Action) []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Action == kind {
			out = append(out, s)
		}
	}
	return out
}

// TestASlurmdThatDoesNotStartIsTold with its own words, once for all that fail alike.
func TestASlurmdThatDoesNotStartIsTold(t *testing.T) {
	f := facts(3).withPod("cpu-0", "IDLE").withPod("cpu-1").withPod("cpu-2")
	for i := 1; i <= 2; i++ {
		f.Pods[i].Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: v1beta1.NameSlurmd, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory\n"}},
		}}}
	}
	const want = "pod cpu-1, container slurmd ended with code 1, and was started 3 times since: " +
		"slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory; 1 more workers don't run either"
	plan := Make(f)
	if len(plan.Problems) != 1 || plan.Problems[0] != (Problem{v1beta1.ReasonPodFailed, want}) {
		t.Errorf("got %v", plan.Problems)
	}
	f.Pods[1].Status, f.Pods[2].Status = f.Pods[0].Status, f.Pods[0].Status
	if plan := Make(f); len(plan.Problems) != 0 {
		t.Errorf("they run, and it says %v", plan.Problems)
	}
}
