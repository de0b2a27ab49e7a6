package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/slurm"
)

// Slurm knows nothing of the pods that no job covers. It puts as many tasks on a node as
// there are cores, and Kubernetes, which counts what daemons ask for, has room for fewer.

// NoRoomError tells that pods that share nodes don't fit beside the pods that no job covers.
type NoRoomError struct{ text string }

func (e NoRoomError) Error() string { return e.text }

// beside bounds how many tasks of a job may be on a node, 0 for no bound, to those for which Kubernetes
// has room, and leaves out the nodes with less room than that.
func (f Feasibility) beside(pods []*corev1.Pod, slots *Slots) (Feasibility, int, error) {
	if f.placed || len(f.usable) == 0 {
		return f, 0, nil
	}
	tasks := slots.Tasks()
	task := taskRequests(pods, slots)
	elsewhere := f.elsewhere(pods)
	room := make(map[string]int, len(f.usable))
	could := make(map[string]int, len(f.usable))
	bounds := []int{tasks}
	crowded := false
	var most Idle
	if f.Now != nil {
		most = f.Now.Most
	}
	for _, n := range f.usable {
		could[n.name] = n.couldTake(slots.Task, most)
		wanted := min(could[n.name], tasks)
		if slots.PerNode > 0 {
			wanted = min(wanted, slots.PerNode)
		}
		fit := wanted
		if wanted > 0 {
			fit = min(copies(task, elsewhere, n.facts, f.taken(n)), wanted)
		}
		if fit < wanted {
			crowded = true
			bounds = append(bounds, fit)
			room[n.name] = fit
		} else {
			room[n.name] = tasks // any bound does; more than it could take are never put there
		}
	}
	if !crowded {
		return f, 0, nil
	}
	bound, held := f.bestBound(bounds, room, could)
	if held < tasks {
		return f, 0, noRoom(f.usable, room, could, held, slots)
	}
	left := f.without(func(n *fleetNode) string {
		if room[n.name] < bound {
			return fmt.Sprintf("room for %d at most of the job's tasks beside the pods that no job covers", room[n.name])
		}
		return ""
	})
	if bound >= tasks {
		bound = 0
	}
	return left, bound, nil
}

// noRoom tells how many tasks there is room for.
func noRoom(nodes []*fleetNode, room, could map[string]int, held int, slots *Slots) NoRoomError {
	tasks, all := slots.Tasks(), 0
	for _, n := range nodes {
		all += min(room[n.name], could[n.name])
	}
	even := ""
	if all >= tasks {
		all, even = held, " if no node has more of them than another"
	}
	return NoRoomError{fmt.Sprintf("beside the pods that no job covers, such as daemons, the %d nodes that suit have room for %d of the %d tasks "+
		"of %d CPUs and %d MiB that the job's pods are%s", len(nodes), all, tasks, slots.Task.CPUs, slots.Task.Memory, even)}
}

// bestBound returns the bound with which the nodes hold the most tasks, of those that are as good the least, and how many
// those are. The most, however many the job has: it is to find a place among others.
func (f Feasibility) bestBound(bounds []int, room, could map[string]int) (bound, held int) {
	slices.Sort(bounds)
	for _, b := range slices.Compact(bounds) {
		sum := 0
		for _, n := range f.usable {
			if room[n.name] >= b {
				sum += min(b, could[n.name])
			}
		}
		if sum > held {
			bound, held = b, sum
		}
	}
	return bound, held
}

// tasks returns how many tasks Slurm would put on a node that is idle, by its CPUs and memory.
func (n *fleetNode) tasks(task Need) int {
	fit := maxPlaces
	if n.cpus > 0 {
		fit = n.cpus / max(int(task.CPUs), 1)
	}
	if n.memory > 0 && task.Memory > 0 {
		fit = min(fit, int(n.memory/task.Memory))
	}
	return fit
}

var one = apiresource.MustParse("1")

// divide returns how many times a quantity has another one, by thousandths where that can be told.
func divide(free, want apiresource.Quantity) int64 {
	if free.CmpInt64(math.MaxInt64/1000) < 0 && want.CmpInt64(math.MaxInt64/1000) < 0 {
		return free.MilliValue() / max(want.MilliValue(), 1)
	}
	return free.Value() / max(want.Value(), 1)
}

// taskRequests returns the most that the pods of one task ask Kubernetes for, of each resource.
func taskRequests(pods []*corev1.Pod, slots *Slots) corev1.ResourceList {
	sums := make([]corev1.ResourceList, slots.Tasks())
	for i, pod := range pods {
		sum := &sums[slots.Slot[i]]
		if *sum == nil {
			*sum = corev1.ResourceList{}
		}
		asked := resource.PodRequests(pod, resource.PodResourcesOptions{})
		asked[corev1.ResourcePods] = one
		for name, q := range asked {
			have := (*sum)[name]
			have.Add(q)
			(*sum)[name] = have
		}
	}
	out := corev1.ResourceList{}
	for _, sum := range sums {
		for name, q := range sum {
			if have, ok := out[name]; !ok || have.Cmp(q) < 0 {
				out[name] = q
			}
		}
	}
	return out
}

// elsewhere returns the resources of the pods that nodes may have in ResourceSlices, not in their allocatable.
func (f Feasibility) elsewhere(pods []*corev1.Pod) []corev1.ResourceName {
	found := map[corev1.ResourceName]bool{}
	for _, pod := range pods {
		for name := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
			if deviceClass(name) || f.Served != nil && f.Served(pod, name) {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// copies returns how many times a node has room for some requests beside the pods that no job covers, and beside
// what is taken.
func copies(each corev1.ResourceList, elsewhere []corev1.ResourceName, n *NodeFacts, taken corev1.ResourceList) int {
	fit := int64(maxPlaces)
	for name, want := range each {
		if want.Sign() <= 0 || slices.Contains(elsewhere, name) && !device.Plugin(n.Node, name) {
			continue
		}
		if _, counted := n.Node.Status.Allocatable[name]; !counted && name == corev1.ResourcePods {
			continue
		}
		free := n.free(name)
		if q, ok := taken[name]; ok {
			free.Sub(q)
		}
		fit = min(fit, max(divide(free, want), 0))
	}
	return int(fit)
}

// Bounds tells whether a request bounds the tasks on a node in another way than the mark of its job does.
// A bound that is no longer needed stays: Slurm can't lift it.
func Bounds(req slurm.JobRequest, mark Mark) bool {
	slots := slotsOfRequest(req)
	return slots != nil && slots.PerNode != 0 && (mark.Slots == nil || mark.Slots.PerNode != slots.PerNode)
}
