package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Slurm can't let a running external job grow. So a group of more pods than must
// start together starts with all of them if there is room at once, else with as many as
// must; each further member gets a job of its own once they run.

// least returns how many of some members, the first ones, must be in one job, where
// others have jobs already; 0 or less where the workload has started without them.
func (g Group) least(pods []*corev1.Pod, others int) int {
	if g.Whole || g.Shapes || len(g.Reserved) > 0 {
		return len(pods)
	}
	n := g.MinCount - others
	if n > 0 && others == 0 {
		for n < len(pods) && !g.enough(pods[:n]) {
			n++
		}
	}
	return min(n, len(pods))
}

// enough tells whether pods ask for as much as must start together.
func (g Group) enough(pods []*corev1.Pod) bool {
	sum := sumOf(pods)
	for name, least := range g.MinResources {
		if have := sum[name]; have.Cmp(least) < 0 {
			return false
		}
	}
	return true
}

func sumOf(pods []*corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		for name, q := range needsOf(pod) {
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

// raise makes the needs of pods that start together reach what the group asks for in
// sum: CPUs and memory that they lack are spread over them evenly. Of other resources
// there is no part that a pod could have without asking for it.
func (g Group) raise(all []Need, pods []*corev1.Pod) ([]Need, error) {
	sum := sumOf(pods)
	n := int64(len(pods))
	all = slices.Clone(all)
	for _, name := range slices.Sorted(maps.Keys(g.MinResources)) {
		least, have := g.MinResources[name], sum[name]
		if have.Cmp(least) >= 0 {
			continue
		}
		each := (least.Value() + n - 1) / n
		for i := range all {
			switch {
			case name == corev1.ResourceCPU && each <= maxCPUs:
				all[i].CPUs = max(all[i].CPUs, uint32(each))
			case name == corev1.ResourceMemory:
				all[i].Memory = max(all[i].Memory, mebibytes(each))
			default:
				return nil, fmt.Errorf("%s asks for %s: %s in its minResources, and its %d pods for %s in sum: the pods must ask for what they are to have",
					g.Key, name, least.String(), n, have.String())
			}
		}
	}
	return all, nil
}
