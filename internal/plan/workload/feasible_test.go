package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

func node(name string, change ...func(*corev1.Node)) NodeFacts {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": "fast"}}}
	n.Status.Allocatable = list("cpu", "4", "memory", "8Gi", "example.com/fpga", "1")
	for _, c := range change {
		c(n)
	}
	return NodeFacts{Node: n, SlurmName: name, Used: list("cpu", "500m")}
}

func taint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func TestFeasible(t *testing.T) {
	slurmNodes := []slurm.Node{
		{Name: "n1", Partitions: []string{"p"}}, {Name: "n2", Partitions: []string{"p", "q"}},
		{Name: "bare", Partitions: []string{"p"}}, {Name: "else", Partitions: []string{"q"}},
	}
	selector := func(v string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": v} }
	}
	tolerate := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	}
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		nodes     []NodeFacts
		partition string
		want      string
		excluded  []string
	}{
		"all Kubernetes nodes": {[]*corev1.Pod{pod("a")}, []NodeFacts{node("n1"), node("n2")}, "p",
			"2 of 3 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node)", []string{"bare"}},
		"of another partition": {[]*corev1.Pod{pod("a")}, []NodeFacts{node("n1"), node("n2")}, "q",
			"1 of 2 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node)", []string{"else"}},
		"unknown partition": {[]*corev1.Pod{pod("a")}, []NodeFacts{node("n1")}, "r", "0 of 0 Slurm nodes can be used, 1 needed", nil},
		"selector": {[]*corev1.Pod{pod("a", selector("slow"))}, []NodeFacts{node("n1"), node("n2")}, "p",
			"0 of 3 Slurm nodes can be used, 1 needed (2: nodeSelector or node affinity doesn't match; 1: it is no Kubernetes node)", []string{"bare", "n1", "n2"}},
		"taints": {[]*corev1.Pod{pod("a")}, []NodeFacts{node("n1", taint("team", corev1.TaintEffectNoSchedule)), node("n2", taint("team", corev1.TaintEffectPreferNoSchedule))}, "p",
			"1 of 3 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node; 1: taint team isn't tolerated)", []string{"bare", "n1"}},
		"tolerated": {[]*corev1.Pod{pod("a", tolerate)}, []NodeFacts{node("n1", taint("team", corev1.TaintEffectNoExecute)), node("n2")}, "p",
			"2 of 3 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node)", []string{"bare"}},
		"taints that come and go": {[]*corev1.Pod{pod("a")}, []NodeFacts{
			node("n1", taint("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute)), node("n2", taint("slinky.slurm.net/managed-node", corev1.TaintEffectNoExecute))}, "p",
			"2 of 3 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node)", []string{"bare"}},
		"too large beside the daemons": {[]*corev1.Pod{pod("a", requests("cpu", "4"))}, []NodeFacts{node("n1"), node("n2")}, "p",
			"0 of 3 Slurm nodes can be used, 1 needed (2: too little cpu; 1: it is no Kubernetes node)", []string{"bare", "n1", "n2"}},
		"a device that a node lacks": {[]*corev1.Pod{pod("a", requests("example.com/fpga", "1"))},
			[]NodeFacts{node("n1"), node("n2", func(n *corev1.Node) { delete(n.Status.Allocatable, "example.com/fpga") })}, "p",
			"1 of 3 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node; 1: too little example.com/fpga)", []string{"bare", "n2"}},
		"any member of a group": {[]*corev1.Pod{pod("a"), pod("b", selector("slow"))}, []NodeFacts{node("n1"), node("n2")}, "p",
			"0 of 3 Slurm nodes can be used, 1 needed (2: nodeSelector or node affinity doesn't match; 1: it is no Kubernetes node)", []string{"bare", "n1", "n2"}},
		"of two partitions": {[]*corev1.Pod{pod("a")}, []NodeFacts{node("n1"), node("n2"), node("else")}, "p, q",
			"3 of 4 Slurm nodes can be used, 1 needed (1: it is no Kubernetes node)", []string{"bare"}},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := NewFleet(c.nodes, slurmNodes)
			f := fleet.Feasible(c.pods[0], Volumes{}, c.partition)
			for _, pod := range c.pods[1:] {
				f = f.And(fleet.Feasible(pod, Volumes{}, c.partition))
			}
			if d := cmp.Diff(c.excluded, f.Excluded); d != "" {
				t.Error(d)
			}
			if got := f.Sentence(1); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestGone(t *testing.T) {
	zero, thirty := int64(0), int64(30)
	grace := func(s *int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, s
		}
	}
	ready := func(s corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}}}
	}
	up, down := ready(corev1.ConditionTrue), ready(corev1.ConditionUnknown)
	out := ready(corev1.ConditionUnknown)
	out.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want bool
	}{
		"running":                        {pod("a", onNode), up, false},
		"ended":                          {pod("a", onNode, ended), up, true},
		"never started, deleted":         {pod("a", grace(&zero)), nil, true},
		"not deleted, node gone":         {pod("a", onNode), nil, false},
		"in its grace period":            {pod("a", onNode, grace(&thirty)), up, false},
		"forced, kubelet still ends it":  {pod("a", onNode, grace(&zero)), up, false},
		"in its grace period, node lost": {pod("a", onNode, grace(&thirty)), down, false},
		"forced, node lost":              {pod("a", onNode, grace(&zero)), down, true},
		"deleted, node out of service":   {pod("a", onNode, grace(&thirty)), out, true},
		"deleted, node gone":             {pod("a", onNode, grace(&thirty)), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Gone(c.pod, c.node); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
