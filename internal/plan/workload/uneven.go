package workload

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

// maxComponents is how many components Slurm takes in one heterogeneous job.
const maxComponents = 128

// Uneven plans a group that shares nodes, and for whose tasks no bound that is the same on all nodes leaves
// enough room beside daemons: as the components of a heterogeneous job, each of which has
// nodes with room for as many tasks, those with the most room first. It is nil where
// the nodes together have too little room, and where the group asks for what no component can have by itself.
func Uneven(g Group, pods []*corev1.Pod, f Feasibility, p Policy) []slurm.JobRequest {
	s, err := ParseAnnotations(g.Annotations)
	if err != nil || f.OneNode || f.placed || len(g.Reserved) > 0 || len(g.MinResources) > 0 || s.MaxNodes > 0 || s.MinNodes > 1 {
		return nil
	}
	all, err := needs(pods, s, f, p.Drivers)
	if err != nil {
		return nil
	}
	slots := slotsOf(all, f.Threads, f.PerNode, 0, f.holds)
	rooms := f.rooms(pods, slots)
	var out []slurm.JobRequest
	next, tasks := 0, slots.Tasks()
	for _, r := range rooms {
		if next == tasks {
			break
		}
		n := min(r.each*len(r.nodes), tasks-next)
		part := f.without(func(node *fleetNode) string {
			if slices.Contains(r.nodes, node.name) {
				return ""
			}
			return "another part of the group has it"
		})
		req, err := Request(g, podsOfTasks(pods, slots, next, next+n), part, p)
		if err != nil {
			return nil
		}
		out = append(out, req)
		next += n
	}
	if next < tasks || len(out) > maxComponents {
		return nil
	}
	return out
}

// roomClass is the nodes with room for equally many tasks.
type roomClass struct {
	each  int
	nodes []string
}

// rooms sorts the nodes by how many tasks they have room for, the most first.
func (f Feasibility) rooms(pods []*corev1.Pod, slots *Slots) []roomClass {
	task, elsewhere := taskRequests(pods, slots), f.elsewhere(pods)
	by := map[int][]string{}
	for _, n := range f.usable {
		fit := min(copies(task, elsewhere, n.facts, nil), n.tasks(slots.Task))
		if slots.PerNode > 0 {
			fit = min(fit, slots.PerNode)
		}
		if fit > 0 {
			by[fit] = append(by[fit], n.name)
		}
	}
	var out []roomClass
	for _, each := range slices.SortedFunc(maps.Keys(by), func(a, b int) int { return cmp.Compare(b, a) }) {
		out = append(out, roomClass{each, by[each]})
	}
	return out
}

// podsOfTasks returns the pods that are in some of the tasks, in their order.
func podsOfTasks(pods []*corev1.Pod, slots *Slots, from, to int) []*corev1.Pod {
	var out []*corev1.Pod
	for i, pod := range pods {
		if slots.Slot[i] >= from && slots.Slot[i] < to {
			out = append(out, pod)
		}
	}
	return out
}
