package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// TestPlaceHoldsWhatSlurmGave plays Slurm for random groups on random nodes.
func TestPlaceHoldsWhatSlurmGave(t *testing.T) {
	for seed := range uint64(500) {
		w := newGame(seed)
		got, err := Place(w.mark, w.nodes, w.cluster)
		if err != nil {
			t.Fatalf("seed %d: %v\nslots %+v\nnodes %+v", seed, err, *w.mark.Slots, w.nodes)
		}
		again, _ := Place(w.mark, w.nodes, w.cluster)
		taken := map[string]bool{}
		once := func(kind string, node string, n int) {
			key := fmt.Sprint(kind, " ", n, " of ", node)
			if taken[key] {
				t.Errorf("seed %d: %s is given twice", seed, key)
			}
			taken[key] = true
		}
		memory := map[string]uint64{}
		for place, uid := range w.mark.Pods {
			g, need := got[uid], w.mark.Slots.Of(place)
			if !g.Equal(again[uid]) {
				t.Errorf("seed %d: pod %s gets %+v, then %+v", seed, uid, g, again[uid])
			}
			i := slices.IndexFunc(w.nodes, func(n slurm.NodeAllocation) bool { return n.Node == g.SlurmNode })
			if i < 0 || g.Node != "k-"+g.SlurmNode || len(g.Cores)*w.cluster.Threads[g.SlurmNode] < int(need.CPUs) || len(g.Cores) == 0 || g.Memory < need.Memory {
				t.Fatalf("seed %d: pod %s needs %+v and gets %+v", seed, uid, need, g)
			}
			memory[g.SlurmNode] += g.Memory
			for _, c := range g.Cores {
				once("core", g.SlurmNode, c)
				if !slices.Contains(w.nodes[i].Cores, c) {
					t.Errorf("seed %d: core %d of %s isn't the job's", seed, c, g.SlurmNode)
				}
			}
			devices := int64(0)
			for _, d := range g.GRES {
				for _, index := range d.Indexes {
					devices++
					once("device", g.SlurmNode, index)
				}
			}
			if devices < need.GRES["gres/gpu"] {
				t.Errorf("seed %d: pod %s needs %+v and gets %d devices", seed, uid, need, devices)
			}
		}
		for _, n := range w.nodes {
			if memory[n.Node] > n.Memory {
				t.Errorf("seed %d: %d MiB of %s are given, %d are the job's", seed, memory[n.Node], n.Node, n.Memory)
			}
			if memory[n.Node] == 0 {
				t.Errorf("seed %d: %s is the job's and has no pod", seed, n.Node)
			}
		}
	}
}

type game struct {
	mark    workload.Mark
	nodes   []slurm.NodeAllocation
	cluster Cluster
}

// newGame makes a group, has its job planned, and puts each task on some node as
// Slurm does: whole cores, memory by CPU, devices by task.
func newGame(seed uint64) game {
	r := rand.New(rand.NewPCG(seed, 1))
	var pods []*corev1.Pod
	for i := range 2 + r.IntN(20) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "ns", UID: types.UID(fmt.Sprint("u", i))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
		limits := corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(r.Int64N(5), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(r.Int64N(4)<<28, resource.BinarySI)}
		if r.IntN(3) == 0 {
			limits["nvidia.com/gpu"] = *resource.NewQuantity(1+r.Int64N(2), resource.DecimalSI)
		}
		p.Spec.Containers[0].Resources.Limits = limits
		pods = append(pods, p)
	}
	req, err := workload.Request(workload.Group{UID: "g", Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"}}, pods,
		workload.Feasibility{Threads: 2}, workload.Policy{Cluster: "c"})
	if err != nil {
		panic(err)
	}
	mark, ok := workload.Owned(slurm.Job{AdminComment: req.AdminComment, Flags: []string{slurm.FlagExternalJob}}, "c")
	if !ok || mark.Slots == nil || uint32(mark.Slots.Tasks()) != req.Tasks {
		panic(req.AdminComment)
	}
	g := game{mark: mark, cluster: Cluster{Names: map[string]string{}, Threads: map[string]int{}}}
	perCPU, _ := req.MemoryPerCPU.Get()
	for left := int(req.Tasks); left > 0; {
		tasks := 1 + r.IntN(left)
		left -= tasks
		name := fmt.Sprint("n", len(g.nodes))
		threads := 1 + r.IntN(2)
		cores := tasks * int(req.CPUsPerTask) / threads
		n := slurm.NodeAllocation{Node: name, Sockets: 1, CoresPerSocket: 2 * cores, Cores: r.Perm(2 * cores)[:cores],
			Memory: uint64(cores*threads) * perCPU}
		slices.Sort(n.Cores)
		if gpus := mark.Slots.Task.GRES["gres/gpu"] * int64(tasks); gpus > 0 {
			d := slurm.GRESAllocation{Name: "gpu", Count: uint64(gpus)}
			for i := range gpus {
				d.Indexes = append(d.Indexes, int(i)+3)
			}
			n.GRES = []slurm.GRESAllocation{d}
		}
		g.nodes = append(g.nodes, n)
		g.cluster.Names[name], g.cluster.Threads[name] = "k-"+name, threads
	}
	return g
}
