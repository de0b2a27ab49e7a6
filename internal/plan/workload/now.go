package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/slinky-hpc/slinky/slurm"
)

// Now is what others have of the nodes at this moment. A plan with it is for a job that is to
// start at once: Slurm could give cores of a node on which Kubernetes has nothing left for them,
// since it doesn't count what daemons ask for.
type Now struct {
	// Taken are the requests of the pods that jobs cover on a node, by its name in Kubernetes.
	Taken func(node string) corev1.ResourceList
	// Most is what Slurm may still give of a node at most: CPUs, and memory in MiB. False where that isn't known.
	Most Idle
	// Likely is what it gives of it as it was read last, a moment ago.
	Likely Idle
}

// Idle tells what Slurm may still give of a node, by its name there.
type Idle func(slurmName string) (cpus int, memory uint64, known bool)

// taken is what the pods that jobs cover have of a node at the moment that a plan is for.
func (f Feasibility) taken(n *fleetNode) corev1.ResourceList {
	if f.Now == nil {
		return nil
	}
	return f.Now.Taken(n.facts.Node.Name)
}

// couldTake returns how many tasks Slurm would put on a node of which so much is idle.
func (n *fleetNode) couldTake(task Need, idle Idle) int {
	if idle == nil {
		return n.tasks(task)
	}
	cpus, memory, known := idle(n.name)
	if !known {
		return n.tasks(task)
	}
	fit := maxPlaces
	if n.cpus > 0 {
		fit = max(cpus, 0) / max(int(task.CPUs), 1)
	}
	if n.memory > 0 && task.Memory > 0 {
		fit = min(fit, int(memory/task.Memory))
	}
	return fit
}

// AtOnce returns what to ask for in place of a request, which Request made of the same but for Now, so that the job starts at
// once: nil for the request itself. It is full where there is no room now. Where more than most nodes are crowded they
// aren't named: Slurm needn't be told of a thousand nodes to find a pod its place among the others.
func AtOnce(req slurm.JobRequest, g Group, pods []*corev1.Pod, f Feasibility, p Policy, most int) (now *slurm.JobRequest, full bool) {
	if req.Tasks != 0 {
		return togetherAtOnce(req, g, pods, f, p, most)
	}
	crowded, others := f.crowdedNow(pods, needOfNode(req))
	switch {
	case len(f.usable)-len(crowded) < int(req.MinimumNodes):
		return nil, true
	case len(crowded) == 0:
		return nil, false
	case len(crowded) <= most:
		req.ExcludedNodes = f.without(func(n *fleetNode) string { return crowded[n.name] }).Excluded
		return &req, false
	case len(pods) > 1:
		return nil, false
	}
	name := f.closest(pods, needOfNode(req), others)
	if name == "" {
		return nil, false
	}
	req.RequiredNodes = []string{name}
	return &req, false
}

// togetherAtOnce is AtOnce where the pods share nodes among each other: the bound of tasks on a node may be another one.
func togetherAtOnce(req slurm.JobRequest, g Group, pods []*corev1.Pod, f Feasibility, p Policy, most int) (*slurm.JobRequest, bool) {
	now, err := Request(g, pods, f, p)
	switch {
	case err != nil:
		return nil, true
	case now.TasksPerNode == req.TasksPerNode && slices.Equal(now.ExcludedNodes, req.ExcludedNodes), len(now.ExcludedNodes)-len(req.ExcludedNodes) > most:
		return nil, false
	}
	return &now, false
}

// uncrowded is a node that isn't crowded.
type uncrowded struct {
	node *fleetNode
	// roomy tells that Kubernetes has room there; else that hasn't been looked at.
	roomy bool
}

// crowdedNow returns, with a reason, the nodes that Slurm could give to one of the pods now, a node to each, and where
// Kubernetes has no room for it; and the others on which there may be room.
func (f Feasibility) crowdedNow(pods []*corev1.Pod, need Need) (crowded map[string]string, others []uncrowded) {
	each, elsewhere := eachRequests(pods), f.elsewhere(pods)
	crowded, others = map[string]string{}, make([]uncrowded, 0, len(f.usable))
	for _, n := range f.usable {
		taken := f.taken(n)
		switch {
		case len(taken) == 0:
			others = append(others, uncrowded{node: n})
		case copies(each, elsewhere, n.facts, taken) > 0:
			others = append(others, uncrowded{n, true})
		case n.couldTake(need, f.Now.Most) > 0:
			crowded[n.name] = "the pods that are there leave too little of it"
		}
	}
	return crowded, others
}

// closest returns the node, by its name in Slurm, that has room for a pod now and that it would leave
// the fewest CPUs of; "" where none has.
func (f Feasibility) closest(pods []*corev1.Pod, need Need, nodes []uncrowded) string {
	each, elsewhere := eachRequests(pods), f.elsewhere(pods)
	best, least := "", 0
	for _, n := range nodes {
		if n.node.couldTake(need, f.Now.Likely) == 0 || !n.roomy && copies(each, elsewhere, n.node.facts, nil) == 0 {
			continue
		}
		cpus, _, known := f.Now.Likely(n.node.name)
		if known && (best == "" || cpus < least) {
			best, least = n.node.name, cpus
		}
	}
	return best
}

// eachRequests returns the most that any of the pods asks Kubernetes for, of each resource.
func eachRequests(pods []*corev1.Pod) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, pod := range pods {
		asked := resource.PodRequests(pod, resource.PodResourcesOptions{})
		asked[corev1.ResourcePods] = one
		for name, q := range asked {
			if have, ok := out[name]; !ok || have.Cmp(q) < 0 {
				out[name] = q
			}
		}
	}
	return out
}

// needOfNode returns what a request for a node for each pod asks of a node.
func needOfNode(req slurm.JobRequest) Need {
	memory, _ := req.MemoryPerNode.Get()
	return Need{CPUs: max(req.CPUsPerTask, 1), Memory: memory}
}

// HasRoom tells whether the nodes that suit, but for one, have room now for all that a request is for.
func (f Feasibility) HasRoom(pods []*corev1.Pod, req slurm.JobRequest, except string) bool {
	each, tasks, perNode, need := eachRequests(pods), int(req.MinimumNodes), 1, needOfNode(req)
	if slots := slotsOfRequest(req); slots != nil {
		each, tasks, perNode, need = taskRequests(pods, slots), slots.Tasks(), slots.PerNode, slots.Task
	}
	elsewhere := f.elsewhere(pods)
	for _, n := range f.usable {
		could := n.couldTake(need, f.Now.Likely)
		if could == 0 || n.name == except {
			continue
		}
		if perNode > 0 {
			could = min(could, perNode)
		}
		if tasks -= min(could, copies(each, elsewhere, n.facts, f.taken(n))); tasks <= 0 {
			return true
		}
	}
	return false
}

// slotsOfRequest returns the slots in the mark of a request, nil where each pod has a node.
func slotsOfRequest(req slurm.JobRequest) *Slots {
	c, ok := ParseComment(slurm.Job{AdminComment: req.AdminComment, Flags: []string{slurm.FlagExternalJob}})
	if !ok || c.Mark == nil {
		return nil
	}
	return c.Mark.Slots
}
