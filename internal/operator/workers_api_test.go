package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/slurm"
)

// testWorkers follows one worker through what happens on both of its sides.
func (s *suite) testWorkers(t *testing.T, all map[string]reconcile.Reconciler, clusters *observe.Clusters) {
	s.bind(t, "cpu-0", "kube-1")
	s.slurm.set("cpu-0", slurm.NodeIdle)
	s.slurm.set("cpu-1", slurm.NodeIdle)
	round(t, all) // connects
	s.await(t, clusters, types.NamespacedName{Namespace: "slurm", Name: "slurm"}, func(v observe.View) bool { return len(v.Nodes) == 2 })
	s.settle(t, all)

	t.Run("checks 48, 49 and 50: Slurm knows what Kubernetes says", func(t *testing.T) {
		n := s.slurm.get("cpu-0")
		if !strings.Contains(n.Comment, `"podName":"cpu-0","node":"kube-1","nodeSetName":"cpu"`) || n.Topology != "tree:s1" || !slices.Equal(n.Features, []string{"k8s/ssd"}) {
			t.Errorf("node is %+v", n)
		}
		if got := s.worker(t).Annotations[v1beta1.AnnotationTopology]; got != "tree:s1" {
			t.Errorf("the pod's topology is %q", got)
		}
	})
	t.Run("check 47: the pod shows Slurm's states, and 50 rounds write nothing", func(t *testing.T) {
		s.wantPodConditions(t, v1beta1.PodConditionIdle)
		writes, updates := s.writes.Load(), s.slurm.count()
		for range 50 {
			round(t, all)
		}
		if n, m := s.writes.Load()-writes, s.slurm.count()-updates; n+int64(m) != 0 {
			t.Errorf("%d writes to Kubernetes, %d to Slurm; the last was %v", n, m, s.lastWrite.Load())
		}
	})
	t.Run("check 32: a cordon and its end", func(t *testing.T) {
		s.changeNode(t, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Annotations[v1beta1.AnnotationNodeCordonReason] = "bad DIMM"
		})
		s.settle(t, all)
		if n := s.slurm.get("cpu-0"); !n.States.Has(slurm.NodeDrain) || n.Reason != v1beta1.OperatorReasonPrefix+"bad DIMM" {
			t.Errorf("node is %v, %q", n.States, n.Reason)
		}
		if a := s.worker(t).Annotations; a[v1beta1.AnnotationPodCordon] != "true" || a[v1beta1.AnnotationPodCordonCause] != "bad DIMM" {
			t.Errorf("annotations are %v", a)
		}
		s.wantPodConditions(t, v1beta1.PodConditionDrain, v1beta1.PodConditionIdle, v1beta1.ConditionSlurmDrained)
		s.changeNode(t, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		s.settle(t, all)
		if n := s.slurm.get("cpu-0"); n.States.Has(slurm.NodeDrain) {
			t.Errorf("node is %v, %q", n.States, n.Reason)
		}
		s.wantPodConditions(t, v1beta1.PodConditionIdle)
	})
	t.Run("a topology that Slurm refuses", func(t *testing.T) {
		s.changeNode(t, func(n *corev1.Node) { n.Annotations[v1beta1.AnnotationTopology] = "unknown:s9" })
		s.settle(t, all)
		set := &v1beta1.NodeSet{}
		s.get(t, "slurm", "cpu", set)
		s.wantCondition(t, set.Status.Conditions, v1beta1.ConditionDegraded, "True", `of Kubernetes node kube-1 is "unknown:s9", which Slurm refuses for node cpu-0`)
		s.changeNode(t, func(n *corev1.Node) { delete(n.Annotations, v1beta1.AnnotationTopology) })
		s.settle(t, all)
		s.get(t, "slurm", "cpu", set)
		s.wantCondition(t, set.Status.Conditions, v1beta1.ConditionDegraded, "False", "")
		if n := s.slurm.get("cpu-0"); n.Topology != "" {
			t.Errorf("topology is still %q", n.Topology)
		}
	})
}

// bind puts a pod on a Kubernetes node, as a scheduler does, and gives it a condition of somebody else.
func (s *suite) bind(t *testing.T, name, node string) {
	t.Helper()
	s.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{
		v1beta1.AnnotationTopology: "tree:s1", v1beta1.AnnotationFeatures: "ssd"}}})
	pod := &corev1.Pod{}
	s.get(t, "slurm", name, pod)
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := s.admin.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatalf("bind %s: %v", name, err)
	}
	s.get(t, "slurm", name, pod)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/mine", Status: corev1.ConditionTrue})
	s.status(t, pod)
}

// settle makes as many rounds as one change may take: a round writes to an object once.
func (s *suite) settle(t *testing.T, all map[string]reconcile.Reconciler) {
	t.Helper()
	for range 5 {
		round(t, all)
	}
}

func (s *suite) worker(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	s.get(t, "slurm", "cpu-0", pod)
	return pod
}

// wantPodConditions compares the conditions that are about Slurm, and that no other is lost.
func (s *suite) wantPodConditions(t *testing.T, want ...corev1.PodConditionType) {
	t.Helper()
	var got []corev1.PodConditionType
	others := 0
	for _, c := range s.worker(t).Status.Conditions {
		if strings.HasPrefix(string(c.Type), v1beta1.PodConditionPrefix) || c.Type == v1beta1.ConditionSlurmDrained {
			got = append(got, c.Type)
		} else if c.Type == corev1.PodReady || c.Type == "example.com/mine" {
			others++
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || others != 2 {
		t.Errorf("conditions are %v and %d others, want %v and 2", got, others, want)
	}
}

func (s *suite) changeNode(t *testing.T, change func(*corev1.Node)) {
	t.Helper()
	n := &corev1.Node{}
	s.get(t, "", "kube-1", n)
	change(n)
	if err := s.admin.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
