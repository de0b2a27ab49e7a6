package operator

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// crashed is a container that has ended three times with these last words.
func crashed(name, words string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: words}},
	}
}

// testTrouble plays daemons that don't start: PodFailed appears with what they say, and goes.
func (s *suite) testTrouble(t *testing.T, all map[string]reconcile.Reconciler) {
	set := &appsv1.StatefulSet{}
	s.get(t, "slurm", "slurm-controller", set)
	s.slurmctldPod(t, set, "slurm-controller-0", true)
	pod := &corev1.Pod{}
	s.get(t, "slurm", "slurm-controller-0", pod)
	healthy := *pod.Status.DeepCopy()
	controller := func(ready int32, status corev1.PodStatus) []metav1.Condition {
		t.Helper()
		s.get(t, "slurm", "slurm-controller", set)
		set.Status.ReadyReplicas = ready
		s.status(t, set)
		s.get(t, "slurm", "slurm-controller-0", pod)
		pod.Status = status
		s.status(t, pod)
		round(t, all)
		c := &v1beta1.Controller{}
		s.get(t, "slurm", "slurm", c)
		return c.Status.Conditions
	}

	const words = "slurmctld: fatal: Can't find plugin for select/foo\nentrypoint: slurmctld ended (code 1)\n"
	failed := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crashed("slurmctld", words)}}
	got := controller(0, failed)
	s.wantReason(t, got, v1beta1.ReasonPodFailed, "pod slurm-controller-0, container slurmctld ended with code 1, and was started 2 times since: slurmctld: fatal: Can't find plugin for select/foo")
	s.wantCondition(t, got, v1beta1.ConditionReady, "False", "")
	s.wantCondition(t, controller(1, healthy), v1beta1.ConditionDegraded, "False", "")

	fallen := *healthy.DeepCopy()
	fallen.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
		Message: words + "entrypoint: slurmctld doesn't start with its configuration: it goes on with the configuration of 2026-05-01T10:00:00Z\n"}}
	got = controller(1, fallen)
	s.wantReason(t, got, v1beta1.ReasonInvalidSpec, "works on with the configuration of 2026-05-01T10:00:00Z: slurmctld: fatal: Can't find plugin for select/foo")
	s.wantCondition(t, got, v1beta1.ConditionReady, "True", "slurmctld answers")
	s.wantCondition(t, controller(1, healthy), v1beta1.ConditionDegraded, "False", "")
	if err := s.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	worker := func(status corev1.PodStatus) []metav1.Condition {
		t.Helper()
		w := &corev1.Pod{}
		s.get(t, "slurm", "cpu-1", w)
		w.Status = status
		s.status(t, w)
		round(t, all)
		n := &v1beta1.NodeSet{}
		s.get(t, "slurm", "cpu", n)
		return n.Status.Conditions
	}
	w := &corev1.Pod{}
	s.get(t, "slurm", "cpu-1", w)
	runs := *w.Status.DeepCopy()
	got = worker(corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crashed("slurmd", "slurmd: fatal: can't stat gres.conf file /dev/nvidia0\n")}})
	s.wantReason(t, got, v1beta1.ReasonPodFailed, "pod cpu-1, container slurmd ended with code 1, and was started 2 times since: slurmd: fatal: can't stat gres.conf file /dev/nvidia0")
	s.wantCondition(t, got, v1beta1.ConditionReady, "False", "1 of 2 workers are ready")
	s.wantCondition(t, worker(runs), v1beta1.ConditionDegraded, "False", "")
}

func (s *suite) wantReason(t *testing.T, conditions []metav1.Condition, reason, message string) {
	t.Helper()
	s.wantCondition(t, conditions, v1beta1.ConditionDegraded, "True", message)
	if c := meta.FindStatusCondition(conditions, v1beta1.ConditionDegraded); c == nil || c.Reason != reason {
		t.Errorf("condition %+v, want the reason %s", c, reason)
	}
}
