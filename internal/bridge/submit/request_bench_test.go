package submit

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// nodesView has nodes, and hands out copies as the cache does.
type nodesView struct {
	heldView
	nodes map[string]slurm.Node
}

func (v nodesView) Node(name string) (slurm.Node, bool) {
	n, ok := v.nodes[name]
	return n.Clone(), ok
}

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n), corev1.ResourcePods: resource.MustParse("1")}
}

// crowd is a submitter of a cluster of nodes with 4 CPUs and a daemon on each. On the first so many of them pods of
// three CPUs leave no room for another, and on the others pods of two.
func crowd(nodes, full int) (*Submitter, *nodeView) {
	s := &Submitter{Config: Config{Index: jobs.NewIndex("c")}, occupants: newOccupants()}
	all := nodesView{nodes: map[string]slurm.Node{}}
	var facts []workload.NodeFacts
	var slurmNodes []slurm.Node
	view := &nodeView{Cluster: placement.Cluster{Names: map[string]string{}}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		facts = append(facts, workload.NodeFacts{Node: node, SlurmName: name, Used: cpus("1")})
		n := slurm.Node{Name: name, CPUs: 4, EffectiveCPUs: 4, RealMemory: 8192, Threads: 1, Partitions: []string{"p"}, States: slurm.StatesOf(slurm.NodeMixed)}
		slurmNodes = append(slurmNodes, n)
		all.nodes[name], view.Names[name] = n, name
		taken := 2
		if i < full {
			taken = 3
		}
		for j := range taken {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(name, "-", j))}}
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
			s.occupants.put(pod, name, occupant{cores: 1})
		}
	}
	s.View, view.Fleet = all, workload.NewFleet(facts, slurmNodes)
	return s, view
}

// BenchmarkPlan is what it costs to find a pod that shares nodes a place among 1,000 nodes, so many of which are crowded.
func BenchmarkPlan(b *testing.B) {
	for _, full := range []int{0, 50, 500, 999, 1000} {
		b.Run(fmt.Sprintf("%d-of-1000-crowded", full), func(b *testing.B) {
			s, view := crowd(1000, full)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", Name: "pod"}}
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
			g := workload.Group{UID: "pod", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}
			pods := []*corev1.Pod{pod}
			f := view.Feasible(pod, workload.Volumes{}, "")
			req, err := workload.Request(g, pods, f, workload.Policy{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				p := planned{JobRequest: req}
				s.plan(&p, g, pods, f, view)
				if p.full != (full == 1000) || (p.now == nil) != (full == 0 || full == 1000) {
					b.Fatalf("no room at all is %t, and the request for now %+v", p.full, p.now)
				}
			}
		})
	}
}
