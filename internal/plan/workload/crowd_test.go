package workload

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// beside returns a fleet of nodes of 4 CPUs, with what daemons use of each.
func besideDaemons(used ...string) *Fleet {
	var kube []NodeFacts
	var nodes []slurm.Node
	for i, cpu := range used {
		name := fmt.Sprintf("n%d", i+1)
		kube = append(kube, NodeFacts{
			Node:      &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list("cpu", "4", "memory", "8Gi", "pods", "6", "example.com/disk", "4")}},
			SlurmName: name, Used: list("cpu", cpu, "pods", "2"),
		})
		nodes = append(nodes, slurm.Node{Name: name, CPUs: 4, EffectiveCPUs: 4, RealMemory: 8192})
	}
	return NewFleet(kube, nodes)
}

func TestTasksBesideDaemons(t *testing.T) {
	for name, c := range map[string]struct {
		fleet       *Fleet
		pods        int
		each        []string
		annotations map[string]string
		// bound, nodes and excluded are what is asked for; err the sentence instead.
		bound, nodes uint32
		excluded     []string
		err          string
	}{
		"nobody else is there":          {fleet: besideDaemons("0", "0"), pods: 4, each: []string{"cpu", "1"}, nodes: 1},
		"they fit beside":               {fleet: besideDaemons("1", "1"), pods: 3, each: []string{"cpu", "1"}, nodes: 1},
		"a node has room for one less":  {fleet: besideDaemons("100m", "100m"), pods: 4, each: []string{"cpu", "1"}, bound: 3, nodes: 2},
		"one node is crowded":           {fleet: besideDaemons("3", "0"), pods: 4, each: []string{"cpu", "1"}, nodes: 1, excluded: []string{"n1"}},
		"a little is no reason":         {fleet: besideDaemons("100m", "100m", "0"), pods: 4, each: []string{"cpu", "1"}, bound: 3, nodes: 2},
		"less is asked for than a core": {fleet: besideDaemons("1", "1"), pods: 4, each: []string{"cpu", "500m"}, nodes: 1},
		"a resource of no account":      {fleet: besideDaemons("0", "0"), pods: 4, each: []string{"cpu", "1", "example.com/disk", "2"}, bound: 2, nodes: 2},
		"too many pods":                 {fleet: besideDaemons("0", "0"), pods: 5, each: []string{"cpu", "100m"}, nodes: 1},
		"there is no room": {fleet: besideDaemons("1", "1"), pods: 7, each: []string{"cpu", "1"},
			err: "beside the pods that no job covers, such as daemons, the 2 nodes that suit have room for 6 of the 7 tasks of 1 CPUs and 1 MiB that the job's pods are"},
		"fewer nodes than that are allowed": {fleet: besideDaemons("1", "1"), pods: 4, each: []string{"cpu", "1"}, annotations: map[string]string{v1beta1.AnnotationMaxNodes: "1"},
			err: "annotation slurmjob.slinky.slurm.net/max-nodes is 1, but the pods need 2 nodes: no more than 3 of their 4 tasks may be on one"},
	} {
		g := Group{UID: "g", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}
		for k, v := range c.annotations {
			g.Annotations[k] = v
		}
		var pods []*corev1.Pod
		for i := range c.pods {
			pods = append(pods, pod(fmt.Sprint(i), requests(c.each...)))
		}
		f := c.fleet.Feasible(pods[0], Volumes{}, "")
		req, err := Request(g, pods, f, Policy{})
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || req.TasksPerNode != c.bound || req.MinimumNodes != c.nodes {
			t.Errorf("%s: %d tasks per node on %d nodes, %v", name, req.TasksPerNode, req.MinimumNodes, err)
		}
		if d := cmp.Diff(c.excluded, req.ExcludedNodes); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		comment, _ := ParseComment(slurm.Job{Flags: []string{slurm.FlagExternalJob}, AdminComment: req.AdminComment})
		if comment.Mark.Slots.PerNode != int(c.bound) {
			t.Errorf("%s: the mark has %d per node", name, comment.Mark.Slots.PerNode)
		}
	}
}

// A job whose pods must be on one node goes to none that daemons crowd.
func TestOneNodeBesideDaemons(t *testing.T) {
	pods := []*corev1.Pod{pod("a", requests("cpu", "2")), pod("b", requests("cpu", "2"))}
	g := Group{UID: "g", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}
	fleet := besideDaemons("1", "0")
	f := fleet.Feasible(pods[0], Volumes{}, "")
	f.OneNode = true
	req, err := Request(g, pods, f, Policy{})
	if d := cmp.Diff([]string{"n1"}, req.ExcludedNodes); err != nil || d != "" || req.MaximumNodes != 1 {
		t.Errorf("%v %s, %d nodes", err, d, req.MaximumNodes)
	}
	f = besideDaemons("1", "1").Feasible(pods[0], Volumes{}, "")
	f.OneNode = true
	if _, err := Request(g, pods, f, Policy{}); !errors.As(err, &NoRoomError{}) {
		t.Errorf("where no node has room for both: %v", err)
	}
	// Where the pods are, they have their room.
	placed := fleet.AsPlaced([]*corev1.Pod{pod("a", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })})
	if req, err := Request(g, pods, placed, Policy{}); err != nil || len(req.ExcludedNodes) != 0 {
		t.Errorf("%v %v", err, req.ExcludedNodes)
	}
}
