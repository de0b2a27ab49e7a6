package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/slurm"
)

// TestRejoinFits has a member made again that asks for something else than the one before it.
func TestRejoinFits(t *testing.T) {
	group := Group{Key: Key{Kind: KindPodGroup, Namespace: "ns", Name: "g"}, UID: "uid-g", MinCount: 2}
	asks := func(list corev1.ResourceList) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}
		}
	}
	with := func(j slurm.Job, slots *Slots, asked slurm.JobAsks) slurm.Job {
		c, _ := ParseComment(j)
		c.Mark.Slots = slots
		j.AdminComment, j.Asked = c.Encode(), asked
		return j
	}
	two := Need{CPUs: 2, Memory: 1024, GRES: map[string]int64{"gres/gpu": 1}}
	shared := with(job(1, slurm.JobRunning, "a", "b"), &Slots{Task: two, Slot: []int{0, 1}, Needs: []Need{two}}, slurm.JobAsks{})
	each := with(job(1, slurm.JobRunning, "a", "b"), nil, slurm.JobAsks{
		CPUsPerTask: slurm.NumberOf(2), MemoryPerNode: slurm.NumberOf(1024), TRESPerNode: "gres/gpu=1",
	})
	unknown := job(1, slurm.JobRunning, "a", "b")
	for name, c := range map[string]struct {
		asks  corev1.ResourceList
		fits  bool
		known bool
	}{
		"the same":                        {corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("1")}, true, true},
		"less":                            {corev1.ResourceList{"cpu": resource.MustParse("1")}, true, true},
		"more CPUs":                       {corev1.ResourceList{"cpu": resource.MustParse("3")}, false, true},
		"more memory":                     {corev1.ResourceList{"memory": resource.MustParse("1025Mi")}, false, true},
		"more GPUs":                       {corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, false, true},
		"no one knows what the place has": {corev1.ResourceList{"cpu": resource.MustParse("64")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := []slurm.Job{shared, each}
			if !c.known {
				jobs = []slurm.Job{unknown}
			}
			for _, j := range jobs {
				steps := Next(Observed{Group: group, Cluster: "c1", Jobs: []slurm.Job{j},
					Pods: []*corev1.Pod{pod("a", onNode), pod("b", ended, onNode), pod("c", asks(c.asks))}})
				if len(steps) != 1 || (steps[0].Kind == StepRejoin) != c.fits {
					t.Errorf("%+v", steps)
				}
				if !c.fits && steps[0].Kind != StepSubmit {
					t.Errorf("a pod that is too large for the place: %s %s", steps[0].Kind, steps[0].Reason)
				}
			}
		})
	}
}

// TestAsPlaced plans a job for pods that run, on nodes that no new pod could use.
func TestAsPlaced(t *testing.T) {
	node := func(name string, threads int) (NodeFacts, slurm.Node) {
		n := &corev1.Node{}
		n.Name, n.Spec.Taints = name, []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
		return NodeFacts{Node: n, SlurmName: name}, slurm.Node{Name: name, Threads: threads}
	}
	k1, s1 := node("n1", 2)
	k2, s2 := node("n2", 1)
	k3, s3 := node("n3", 4)
	fleet := NewFleet([]NodeFacts{k1, k2, k3}, []slurm.Node{s1, s2, s3})
	on := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	f := fleet.AsPlaced([]*corev1.Pod{pod("a", on("n1")), pod("b", on("n1")), pod("c", on("n2"))})
	if f.Threads != 2 || f.PerNode != 2 || len(f.Excluded) != 0 || f.Usable() != 2 {
		t.Errorf("%+v", f)
	}
	if f := fleet.AsPlaced([]*corev1.Pod{pod("a", on("n1")), pod("c", on("n2"))}); f.PerNode != 1 {
		t.Errorf("a node each: %+v", f)
	}
}
