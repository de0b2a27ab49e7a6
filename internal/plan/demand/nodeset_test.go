package demand

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

func nodeSet(slurmd string, change func(*v1beta1.NodeSetSpec)) *v1beta1.NodeSet {
	n := &v1beta1.NodeSet{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	n.Spec.Autoscaling = &v1beta1.NodeSetAutoscaling{MaxReplicas: 3}
	n.Spec.Replicas = new(int32)
	n.Spec.Slurmd.JSON = []byte(slurmd)
	if change != nil {
		change(&n.Spec)
	}
	return n
}

func TestShapes(t *testing.T) {
	const limits = `{"resources":{"limits":{"cpu":"3500m","memory":"2Gi"}}}`
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}, Spec: corev1.PodSpec{Hostname: "gpu-0"}}
	live := slurm.Node{Name: "gpu-0", CPUs: 8, EffectiveCPUs: 6, Threads: 2, RealMemory: 4000, SpecializedMemory: 500, GRES: "gpu:a100:2(S:0)",
		Features: []string{"gpu", "k8s/x"}, SlurmdStartTime: now, States: slurm.StatesOf(slurm.NodeIdle), Partitions: []string{"all"}}
	a100 := []tres.GRES{{Name: "gpu", Type: "a100", Count: 2}}
	for name, tc := range map[string]struct {
		set   *v1beta1.NodeSet
		nodes map[string]slurm.Node
		want  Shape
	}{
		"nothing known": {nodeSet("", nil), nil, Shape{Threads: 1, Features: []string{"gpu"}}},
		"limits and extraConf": {
			nodeSet(limits, func(s *v1beta1.NodeSetSpec) { s.ExtraConf = "Gres=gpu:a100:2 Feature=b,a" }), nil,
			Shape{CPUs: 4, Threads: 1, Memory: 2048, GRES: a100, Features: []string{"a", "b", "gpu"}},
		},
		"a worker that has registered": {
			nodeSet(limits, nil), map[string]slurm.Node{"gpu-0": live},
			Shape{CPUs: 6, Threads: 2, Memory: 3500, GRES: []tres.GRES{{Name: "gpu", Type: "a100", Count: 2, Sockets: []int{0}}}, Features: []string{"gpu", "k8s/x"}},
		},
		"what the user says": {
			nodeSet(limits, func(s *v1beta1.NodeSetSpec) {
				s.Autoscaling.Capacity = &v1beta1.NodeSetCapacity{CPUs: 2, Gres: "gpu:a100:2", Features: []string{"fast"}}
			}), nil,
			Shape{CPUs: 2, Threads: 1, Memory: 2048, GRES: a100, Features: []string{"fast", "gpu"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := SetOf(tc.set, &v1beta1.Controller{}, []corev1.Pod{pod}, tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.Shape); diff != "" {
				t.Error(diff)
			}
			if kept := s.Remember(); kept != nil {
				empty := nodeSet("", nil)
				empty.Status.Autoscaling = &v1beta1.NodeSetAutoscalingStatus{Worker: kept}
				again, err := SetOf(empty, &v1beta1.Controller{}, nil, nil)
				if err != nil || again.Shape.CPUs != s.Shape.CPUs || again.Shape.Memory != s.Shape.Memory || count(again.Shape.GRES, a100[0]) != 2 {
					t.Errorf("remembered as %s, was %s: %v", again.Shape, s.Shape, err)
				}
			}
		})
	}
}

func TestPartitions(t *testing.T) {
	c := &v1beta1.Controller{}
	c.Spec.ExtraConf = "# PartitionName=no Nodes=ALL\nPartitionName=all Nodes=ALL State=UP\nNodeSet=fast Feature=nvlink\npartitionname=quick nodes=other,fast\nPartitionName=cpu Nodes=cpu\n"
	n := nodeSet("", func(s *v1beta1.NodeSetSpec) { s.Partition.Enabled, s.ExtraConf = true, "Feature=nvlink" })
	s, err := SetOf(n, c, nil, map[string]slurm.Node{"gpu_spare0": {Name: "gpu_spare0", Partitions: []string{"seen"}}, "cpu_spare0": {Name: "cpu_spare0", Partitions: []string{"cpu"}}})
	if diff := cmp.Diff([]string{"all", "gpu", "quick", "seen"}, s.Partitions); diff != "" || err != nil {
		t.Errorf("%v%s", err, diff)
	}
}

func TestSpares(t *testing.T) {
	s := gpuSet("gpu", 1, 3)
	s.SlurmName = "gpu"
	s.Workers = []Worker{{Since: now}}
	f := Facts{Now: now, Sets: []Set{s}}
	plan := Plan{Decisions: []Decision{{Name: "gpu", Replicas: 1}}}
	down := func(name string, change func(*slurm.Node)) slurm.Node {
		n := slurm.Node{Name: name, CPUs: 4, RealMemory: 8000, Features: []string{"gpu"}, GRES: "gpu:a100:2", States: slurm.StatesOf(slurm.NodeDown), Reason: SpareReason("gpu")}
		if change != nil {
			change(&n)
		}
		return n
	}
	for name, tc := range map[string]struct {
		nodes []slurm.Node
		room  int
		want  []string
	}{
		"none yet":                     {nil, 1024, []string{"create gpu_spare0", "create gpu_spare1"}},
		"all there":                    {[]slurm.Node{down("gpu_spare0", nil), down("gpu_spare1", nil)}, 1024, nil},
		"one too many":                 {[]slurm.Node{down("gpu_spare0", nil), down("gpu_spare1", nil), down("gpu_spare2", nil)}, 1024, []string{"remove gpu_spare2"}},
		"half made":                    {[]slurm.Node{down("gpu_spare0", func(n *slurm.Node) { n.States, n.Reason = slurm.StatesOf("FUTURE"), "" }), down("gpu_spare1", nil)}, 1024, []string{"hold gpu_spare0"}},
		"another size":                 {[]slurm.Node{down("gpu_spare0", func(n *slurm.Node) { n.CPUs = 2 }), down("gpu_spare1", nil)}, 1024, []string{"remove gpu_spare0"}},
		"of a set that is gone":        {[]slurm.Node{down("gpu_spare0", nil), down("gpu_spare1", nil), down("old_spare0", nil)}, 1024, []string{"remove old_spare0"}},
		"somebody else's":              {[]slurm.Node{down("gpu_spare0", func(n *slurm.Node) { n.Reason = "disk" }), down("gpu_spare1", nil)}, 1024, nil},
		"a node that is used":          {[]slurm.Node{down("old_spare0", func(n *slurm.Node) { n.SlurmdStartTime = now }), down("gpu_spare0", nil), down("gpu_spare1", nil)}, 1024, nil},
		"no more than slurmctld takes": {nil, 2, []string{"create gpu_spare0"}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := map[string]slurm.Node{}
			for _, n := range tc.nodes {
				nodes[n.Name] = n
			}
			var got []string
			for _, step := range Spares(f, plan, nodes, tc.room) {
				what := "hold "
				switch {
				case step.Create != nil:
					what = "create "
				case step.Remove:
					what = "remove "
				}
				got = append(got, what+step.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	c := &v1beta1.Controller{}
	if MaxNodes(c) != 1024 {
		t.Errorf("slurmctld takes %d nodes by default", MaxNodes(c))
	}
	if c.Spec.ExtraConf = "MaxNodeCount=5000\n"; MaxNodes(c) != 5000 {
		t.Errorf("slurmctld takes %d nodes, want 5000", MaxNodes(c))
	}
}
