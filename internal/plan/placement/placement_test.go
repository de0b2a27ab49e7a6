package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

func TestPlace(t *testing.T) {
	labelled := map[string]string{"slinky.slurm.net/slurm-nodename": "s3"}
	c := Cluster{Names: Names([]*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "k1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "k3", Labels: labelled}},
		{ObjectMeta: metav1.ObjectMeta{Name: "s3"}},
	})}
	for name, tt := range map[string]struct {
		pods  []types.UID
		nodes []string
		want  map[types.UID]string
		err   string
	}{
		"in the job's order": {[]types.UID{"a", "b"}, []string{"s3", "k1"}, map[types.UID]string{"a": "k3", "b": "k1"}, ""},
		"more nodes":         {[]types.UID{"a"}, []string{"k1", "s3"}, map[types.UID]string{"a": "k1"}, ""},
		"fewer nodes":        {[]types.UID{"a", "b"}, []string{"k1"}, nil, "the job has 1 nodes for 2 pods"},
		"an unknown node": {[]types.UID{"a"}, []string{"x"}, nil,
			"Slurm node x is no Kubernetes node: give the Kubernetes node that it is the label slinky.slurm.net/slurm-nodename=x"},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []slurm.NodeAllocation
			for _, n := range tt.nodes {
				nodes = append(nodes, slurm.NodeAllocation{Node: n, Cores: []int{0, 1}, Memory: 100})
			}
			got, err := Place(workload.Mark{Pods: tt.pods}, nodes, c)
			for pod, node := range tt.want {
				g := got[pod]
				if g.Node != node || c.Names[g.SlurmNode] != node || !cmp.Equal(g.Cores, []int{0, 1}) || g.Memory != 100 {
					t.Errorf("pod %s has %+v", pod, g)
				}
			}
			if len(got) != len(tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("%d grants, error %v", len(got), err)
			}
		})
	}
}

func TestShare(t *testing.T) {
	gpu := func(n int64) map[string]int64 { return map[string]int64{"gres/gpu": n} }
	nodes := []slurm.NodeAllocation{
		{Node: "x1", Sockets: 2, CoresPerSocket: 4, Cores: []int{1, 2, 5, 6}, Memory: 4000,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "a", Count: 1, Indexes: []int{3}}, {Name: "gpu", Type: "b", Count: 1, Indexes: []int{5}}}},
		{Node: "x2", Sockets: 1, CoresPerSocket: 4, Cores: []int{0, 1}, Memory: 2000,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "a", Count: 1, Indexes: []int{0}}}},
	}
	c := Cluster{Names: map[string]string{"x1": "k1", "x2": "k2"}, Threads: map[string]int{"x1": 2}}
	mark := workload.Mark{Pods: []types.UID{"a", "b", "c"}, Slots: &workload.Slots{
		Task: workload.Need{CPUs: 4, Memory: 2000, GRES: gpu(1)}, Slot: []int{0, 1, 2},
		Needs: []workload.Need{{CPUs: 4, Memory: 2000, GRES: gpu(1)}, {CPUs: 1, Memory: 10, GRES: map[string]int64{"gres/gpu:b": 1}}},
		Need:  []int{0, 1, 0},
	}}
	// x2 has two cores of one thread for a task of four CPUs: it has one task all the same.
	want := map[types.UID]Grant{
		"a": {Node: "k1", SlurmNode: "x1", Sockets: 2, CoresPerSocket: 4, Cores: []int{1, 2}, Memory: 2000,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "a", Count: 1, Indexes: []int{3}}}},
		"b": {Node: "k1", SlurmNode: "x1", Sockets: 2, CoresPerSocket: 4, Cores: []int{5}, Memory: 10,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "b", Count: 1, Indexes: []int{5}}}},
		"c": {Node: "k2", SlurmNode: "x2", Sockets: 1, CoresPerSocket: 4, Cores: []int{0, 1}, Memory: 2000,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "a", Count: 1, Indexes: []int{0}}}},
	}
	got, err := Place(mark, nodes, c)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	if _, err := Place(mark, nodes[:1], c); err == nil || err.Error() != "the job's nodes have room for 2 of its 3 tasks" {
		t.Errorf("with a node too few: %v", err)
	}
}
