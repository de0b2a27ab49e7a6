package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/slurm"
)

// NodeFacts is a Kubernetes node with what others take of it.
type NodeFacts struct {
	Node *corev1.Node
	// SlurmName is the node's name in Slurm.
	SlurmName string
	// Used are the requests of the pods on it that no job covers, such as daemons.
	Used corev1.ResourceList
}

// free returns what those pods leave of a resource.
func (n *NodeFacts) free(name corev1.ResourceName) apiresource.Quantity {
	q := n.Node.Status.Allocatable[name].DeepCopy()
	q.Sub(n.Used[name])
	return q
}

// Fleet is the nodes as they are at one moment, from both sides. It never changes.
type Fleet struct {
	kube  []NodeFacts
	slurm []fleetNode
	// byKube finds a node by its name in Kubernetes.
	byKube map[string]*NodeFacts
	// Served tells which extended resources of a pod a device class serves, where a node
	// doesn't offer them itself; nil for none.
	Served func(*corev1.Pod, corev1.ResourceName) bool
}

// fleetNode is a node of Slurm; facts are nil where it is no Kubernetes node.
type fleetNode struct {
	name       string
	partitions []string
	threads    int
	// cpus and memory, in MiB, are what jobs may have of it; 0 where that isn't known.
	cpus   int
	memory uint64
	facts  *NodeFacts
}

// NewFleet joins the nodes of both sides.
func NewFleet(kube []NodeFacts, slurmNodes []slurm.Node) *Fleet {
	f := &Fleet{kube: kube, byKube: make(map[string]*NodeFacts, len(kube))}
	bySlurm := make(map[string]*NodeFacts, len(kube))
	for i := range kube {
		n := &kube[i]
		f.byKube[n.Node.Name] = n
		if had := bySlurm[n.SlurmName]; had == nil || n.SlurmName != n.Node.Name {
			bySlurm[n.SlurmName] = n
		}
	}
	for i := range slurmNodes {
		n := &slurmNodes[i]
		f.slurm = append(f.slurm, fleetNode{
			name: n.Name, partitions: n.Partitions, threads: n.Threads,
			cpus: cmp.Or(n.EffectiveCPUs, n.CPUs), memory: n.RealMemory - min(n.SpecializedMemory, n.RealMemory), facts: bySlurm[n.Name],
		})
	}
	slices.SortFunc(f.slurm, func(a, b fleetNode) int { return strings.Compare(a.name, b.name) })
	return f
}

// in tells whether a node is in one of the partitions of a comma list; "" is any.
func (n *fleetNode) in(partitions string) bool {
	if partitions == "" {
		return true
	}
	for name := range strings.SplitSeq(partitions, ",") {
		if slices.Contains(n.partitions, strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// Shape returns a text that is the same for pods which the same nodes suit.
func Shape(pod *corev1.Pod, v Volumes) string {
	var node *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		node = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	text, err := json.Marshal([]any{pod.Spec.NodeSelector, node, pod.Spec.Tolerations, needsOf(pod), v.Selectors})
	if err != nil {
		panic(err) // API types only
	}
	return string(text)
}

// Feasible compares what can't change while a job waits: affinity, taints, the
// size of nodes, where volumes are. Who uses a node now is for Slurm to weigh.
// Slurm nodes outside of the partition don't matter; those without a Kubernetes
// node can't be used.
func (f *Fleet) Feasible(pod *corev1.Pod, v Volumes, partition string) Feasibility {
	out := Feasibility{why: map[string]string{}, Threads: 1}
	c := newDemands(pod, v, f.Served)
	for i := range f.slurm {
		n := &f.slurm[i]
		if !n.in(partition) {
			continue
		}
		why := "it is no Kubernetes node"
		if n.facts != nil {
			why = c.reject(n.facts)
		}
		if why == "" {
			out.usable = append(out.usable, n)
			out.Threads = max(out.Threads, n.threads)
			continue
		}
		out.Excluded = append(out.Excluded, n.name)
		out.why[n.name] = why
	}
	return out
}

// Without returns the feasibility without the nodes for which why gives a reason.
func (f Feasibility) Without(why func(node *NodeFacts) string) Feasibility {
	return f.without(func(n *fleetNode) string { return why(n.facts) })
}

func (f Feasibility) without(why func(n *fleetNode) string) Feasibility {
	reasons := map[string]string{}
	var left []*fleetNode
	for _, n := range f.usable {
		if reason := why(n); reason != "" {
			reasons[n.name] = reason
		} else {
			left = append(left, n)
		}
	}
	if len(reasons) == 0 {
		return f
	}
	out := f
	out.usable = left
	maps.Copy(reasons, f.why)
	out.why = reasons
	out.Excluded = slices.Sorted(maps.Keys(reasons))
	return out
}

// And returns the nodes that suit both.
func (f Feasibility) And(g Feasibility) Feasibility {
	f.Threads = max(f.Threads, g.Threads)
	return f.without(func(n *fleetNode) string { return g.why[n.name] })
}

// Feasibility is which Slurm nodes the pods of one job can't use, and why.
type Feasibility struct {
	// Excluded are the Slurm names of unusable nodes, sorted.
	Excluded []string
	// Threads is the greatest number of threads per core of a usable node.
	Threads int
	// PerNode is the most pods of the group that may be on one node, 0 for any number.
	PerNode int
	// OneNode tells that all pods of the group must be on one node.
	OneNode bool
	// Claimed is what the claims of pods take beside what their containers ask for.
	Claimed map[types.UID]device.Demand
	// Served tells which extended resources of a pod are among that; nil for none.
	Served func(*corev1.Pod, corev1.ResourceName) bool
	// Now is set where the job is to start at once; nil where it may wait, and others be gone by then.
	Now *Now

	usable []*fleetNode
	// placed tells that the pods are on the nodes already.
	placed bool
	// why is the reason of each excluded node.
	why map[string]string
}

// served tells which extended resources of a pod its claims stand for.
func (f Feasibility) served(pod *corev1.Pod) func(corev1.ResourceName) bool {
	return func(name corev1.ResourceName) bool { return f.Served != nil && f.Served(pod, name) }
}

// Nodes returns the names, in Kubernetes, of the nodes that are left.
func (f Feasibility) Nodes() []string {
	out := make([]string, 0, len(f.usable))
	for _, n := range f.usable {
		out = append(out, n.facts.Node.Name)
	}
	return out
}

// Usable returns how many nodes are left.
func (f Feasibility) Usable() int { return len(f.usable) }

// holds tells whether some usable node has as much CPU and memory as a task beside the pods that no job covers.
func (f Feasibility) holds(task Need) bool {
	return slices.ContainsFunc(f.usable, func(n *fleetNode) bool {
		cpus, memory := n.facts.free(corev1.ResourceCPU), n.facts.free(corev1.ResourceMemory)
		return cpus.CmpInt64(int64(task.CPUs)) >= 0 && uint64(max(memory.Value(), 0))/mebi >= task.Memory
	})
}

// Sentence tells why there are too few nodes.
func (f Feasibility) Sentence(need int) string {
	count := map[string]int{}
	for _, reason := range f.why {
		count[reason]++
	}
	reasons := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		if d := count[b] - count[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		reasons[i] = fmt.Sprintf("%d: %s", count[r], r)
	}
	s := fmt.Sprintf("%d of %d Slurm nodes can be used, %d needed", f.Usable(), f.Usable()+len(f.Excluded), need)
	if len(reasons) > 0 {
		s += " (" + strings.Join(reasons, "; ") + ")"
	}
	return s
}

// AsPlaced is what the nodes that pods are on tell of them, for a job on those very nodes: nothing is excluded there, and no
// more pods share a node than do.
func (f *Fleet) AsPlaced(pods []*corev1.Pod) Feasibility {
	out := Feasibility{Threads: 1, placed: true}
	on := map[string]int{}
	for _, pod := range pods {
		on[pod.Spec.NodeName]++
		out.PerNode = max(out.PerNode, on[pod.Spec.NodeName])
	}
	for i := range f.slurm {
		if n := &f.slurm[i]; n.facts != nil && on[n.facts.Node.Name] > 0 {
			out.Threads = max(out.Threads, n.threads)
			out.usable = append(out.usable, n)
		}
	}
	return out
}
