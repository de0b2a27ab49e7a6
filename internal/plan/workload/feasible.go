package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// NodeFacts is a Kubernetes node with what others take of it.
type NodeFacts struct {
	Node *corev1.Node
	// SlurmName is the node's name in Slurm.
	SlurmName string
	// Used are the requests of the pods on it that no job covers, such as daemons.
	Used corev1.ResourceList
	// Lacks is why the node's devices can't serve the pods, "" if they can.
	Lacks string
}

// Feasibility is which Slurm nodes the pods of one job can't use, and why.
type Feasibility struct {
	// Excluded are the Slurm names of unusable nodes, sorted.
	Excluded []string
	// Usable counts the others.
	Usable int
	// Reasons counts the excluded nodes by reason.
	Reasons map[string]int
}

// Feasible compares what can't change while a job waits: affinity, taints, the
// size of nodes. Who uses a node now is for Slurm to weigh. Slurm nodes outside
// of the partition don't matter; those without a Kubernetes node can't be used.
func Feasible(pods []*corev1.Pod, nodes []NodeFacts, slurmNodes []slurm.Node, partition string) Feasibility {
	f := Feasibility{Reasons: map[string]int{}}
	byName := make(map[string]*NodeFacts, len(nodes))
	for i := range nodes {
		byName[nodes[i].SlurmName] = &nodes[i]
	}
	c := newChecks(pods)
	for i := range slurmNodes {
		sn := &slurmNodes[i]
		if partition != "" && !slices.Contains(sn.Partitions, partition) {
			continue
		}
		why := "it is no Kubernetes node"
		if n := byName[sn.Name]; n != nil {
			why = c.reject(n)
		}
		if why == "" {
			f.Usable++
			continue
		}
		f.Excluded = append(f.Excluded, sn.Name)
		f.Reasons[why]++
	}
	slices.Sort(f.Excluded)
	return f
}

// Sentence tells why there are too few nodes.
func (f Feasibility) Sentence(need int) string {
	reasons := slices.Collect(maps.Keys(f.Reasons))
	slices.SortFunc(reasons, func(a, b string) int {
		if d := f.Reasons[b] - f.Reasons[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		reasons[i] = fmt.Sprintf("%d: %s", f.Reasons[r], r)
	}
	s := fmt.Sprintf("%d of %d Slurm nodes can be used, %d needed", f.Usable, f.Usable+len(f.Excluded), need)
	if len(reasons) > 0 {
		s += " (" + strings.Join(reasons, "; ") + ")"
	}
	return s
}

// checks are the pods' demands, prepared once for many nodes.
type checks struct {
	pods     []*corev1.Pod
	affinity []nodeaffinity.RequiredNodeAffinity
	requests []corev1.ResourceList
}

func newChecks(pods []*corev1.Pod) checks {
	c := checks{pods: pods}
	for _, pod := range pods {
		c.affinity = append(c.affinity, nodeaffinity.GetRequiredNodeAffinity(pod))
		c.requests = append(c.requests, resource.PodRequests(pod, resource.PodResourcesOptions{}))
	}
	return c
}

// reject returns why a node doesn't suit all pods, "" if it does.
func (c checks) reject(n *NodeFacts) string {
	if n.Lacks != "" {
		return n.Lacks
	}
	for i, pod := range c.pods {
		if ok, err := c.affinity[i].Match(n.Node); err != nil || !ok {
			return "nodeSelector or node affinity doesn't match"
		}
		for t := range n.Node.Spec.Taints {
			taint := &n.Node.Spec.Taints[t]
			if lasting(taint) && !tolerates(pod, taint) {
				return "taint " + taint.Key + " isn't tolerated"
			}
		}
		if name, ok := lacking(c.requests[i], n); ok {
			return "too little " + string(name)
		}
	}
	return ""
}

// lasting tells whether a taint keeps pods off a node for more than a moment.
// The node's own condition and cordon become its state in Slurm; the bridge's
// taint is tolerated by every pod that it places.
func lasting(t *corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule &&
		t.Key != v1beta1.TaintManagedNode &&
		!strings.HasPrefix(t.Key, "node.kubernetes.io/")
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Logger{}, taint, false)
	})
}

// lacking returns a resource of which the node has too little, even when no job runs there.
func lacking(requests corev1.ResourceList, n *NodeFacts) (corev1.ResourceName, bool) {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name]
		if want.IsZero() || deviceClass(name) {
			continue
		}
		free := n.Node.Status.Allocatable[name].DeepCopy()
		free.Sub(n.Used[name])
		if free.Cmp(want) < 0 {
			return name, true
		}
	}
	return "", false
}

// deviceClass tells whether a resource is served from ResourceSlices, not from a node's allocatable.
func deviceClass(name corev1.ResourceName) bool {
	_, ok := tresName(name)
	return name == resourceCPUClass || ok && !slices.Contains(vendorGPUs, name)
}
