package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// share divides nodes between pods that may be together on one.
func share(mark workload.Mark, nodes []slurm.NodeAllocation, c Cluster) (map[types.UID]Grant, error) {
	hosts, err := spread(mark.Slots, nodes, c)
	if err != nil {
		return nil, err
	}
	members := make([][]int, len(nodes))
	for place := range mark.Pods {
		h := hosts[mark.Slots.Slot[place]]
		members[h] = append(members[h], place)
	}
	placed := make(map[types.UID]Grant, len(mark.Pods))
	for h, places := range members {
		if len(places) == 1 {
			placed[mark.Pods[places[0]]] = whole(nodes[h], c)
			continue
		}
		rest := newRest(nodes[h], c)
		for _, place := range places {
			g, err := rest.take(mark.Slots.Of(place))
			if err != nil {
				return nil, err
			}
			placed[mark.Pods[place]] = g
		}
	}
	return placed, nil
}

// spread returns the node of each task: one for each node first, since Slurm gave
// none without a task, then as many as each node has room for, in order.
func spread(s *workload.Slots, nodes []slurm.NodeAllocation, c Cluster) ([]int, error) {
	tasks := s.Tasks()
	count := make([]int, len(nodes))
	left := tasks
	for i := range nodes {
		if left > 0 {
			count[i]++
			left--
		}
	}
	for i, n := range nodes {
		fit := capacity(s.Task, n, c)
		if s.PerNode > 0 {
			fit = min(fit, s.PerNode)
		}
		more := min(left, max(0, fit-count[i]))
		count[i] += more
		left -= more
	}
	if left > 0 {
		return nil, tooSmall("the job's nodes have room for %d of its %d tasks", tasks-left, tasks)
	}
	var hosts []int
	for i, n := range count {
		for range n {
			hosts = append(hosts, i)
		}
	}
	return hosts, nil
}

// capacity returns how many tasks fit in what a job has of a node.
func capacity(task workload.Need, n slurm.NodeAllocation, c Cluster) int {
	fit := len(n.Cores) / cores(task, n.Node, c)
	if task.Memory > 0 && n.Memory > 0 { // Slurm may be set to count no memory
		fit = min(fit, int(n.Memory/task.Memory))
	}
	for name, want := range task.GRES {
		if want > 0 {
			fit = min(fit, int(count(n.GRES, name)/uint64(want)))
		}
	}
	return fit
}

// cores returns how many whole cores a pod takes: none is for two pods.
func cores(n workload.Need, node string, c Cluster) int {
	threads := max(c.Threads[node], 1)
	return (max(int(n.CPUs), 1) + threads - 1) / threads
}

func count(have []slurm.GRESAllocation, name string) uint64 {
	var sum uint64
	for _, g := range have {
		if matches(g, name) {
			sum += g.Count
		}
	}
	return sum
}

// matches tells whether a granted resource is what a TRES name asks for: "gres/gpu" takes gpus of all types.
func matches(g slurm.GRESAllocation, name string) bool {
	kind, typ, typed := strings.Cut(strings.TrimPrefix(name, "gres/"), ":")
	return g.Name == kind && (!typed || g.Type == typ)
}

// rest is what is left of a job's part of a node.
type rest struct {
	node slurm.NodeAllocation
	c    Cluster
	// counted tells that Slurm counts memory.
	counted bool
}

func newRest(n slurm.NodeAllocation, c Cluster) *rest {
	n.GRES = slices.Clone(n.GRES)
	return &rest{node: n, c: c, counted: n.Memory > 0}
}

// take gives a pod what it needs, the lowest numbers first.
func (r *rest) take(need workload.Need) (Grant, error) {
	g := whole(r.node, r.c)
	n := cores(need, r.node.Node, r.c)
	if n > len(r.node.Cores) || r.counted && need.Memory > r.node.Memory {
		return g, fmt.Errorf("Slurm gave too little of node %s: a pod needs %d cores and %d MiB, and %d cores and %d MiB are left",
			r.node.Node, n, need.Memory, len(r.node.Cores), r.node.Memory)
	}
	g.Cores, r.node.Cores = r.node.Cores[:n:n], r.node.Cores[n:]
	g.Memory = need.Memory
	if r.counted {
		r.node.Memory -= need.Memory
	}
	g.GRES = nil
	for _, name := range byDemand(need.GRES) {
		got, left := r.device(name, uint64(need.GRES[name]))
		if left > 0 {
			return g, fmt.Errorf("Slurm gave too little of node %s: a pod needs %d of %s, and %d are left",
				r.node.Node, need.GRES[name], name, uint64(need.GRES[name])-left)
		}
		g.GRES = append(g.GRES, got...)
	}
	return g, nil
}

// byDemand returns the names of wanted resources, those of a type first: any type
// may stand for a name without one.
func byDemand(want map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(want), func(a, b string) int {
		if d := strings.Count(b, ":") - strings.Count(a, ":"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// device takes resources of a name, and returns how many are missing.
func (r *rest) device(name string, want uint64) ([]slurm.GRESAllocation, uint64) {
	var out []slurm.GRESAllocation
	for i := range r.node.GRES {
		have := &r.node.GRES[i]
		n := min(want, have.Count)
		if n == 0 || !matches(*have, name) {
			continue
		}
		got := *have
		got.Count = n
		if k := min(int(n), len(have.Indexes)); k > 0 {
			got.Indexes, have.Indexes = have.Indexes[:k:k], have.Indexes[k:]
		}
		have.Count -= n
		want -= n
		out = append(out, got)
	}
	return out, want
}
