package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// fits tells whether a pod needs no more than a place of a running job has. What
// can't be told, as of a pod that no job could be asked for, is taken as fitting;
// so are its claims, which get devices of what the place has or keep the pod back.
func (g Group) fits(pod *corev1.Pod, j markedJob, place int) bool {
	s, err := ParseAnnotations(g.Annotations)
	if err != nil {
		return true
	}
	all, err := needs([]*corev1.Pod{pod}, s, Feasibility{}, nil)
	if err != nil {
		return true
	}
	if slots := j.mark.Slots; slots != nil {
		return all[0].within(slots.Of(place))
	}
	had, ok := eachHas(j.Job)
	return !ok || all[0].within(had)
}

// within tells whether a need is no greater in any dimension.
func (n Need) within(m Need) bool {
	if n.CPUs > m.CPUs || n.Memory > m.Memory {
		return false
	}
	for name, count := range n.GRES {
		if count > m.GRES[name] {
			return false
		}
	}
	return true
}

// eachHas returns what a job asked for each of its nodes, of which each has one pod.
func eachHas(j slurm.Job) (Need, bool) {
	cpus, ok := j.Asked.CPUsPerTask.Get()
	memory, known := j.Asked.MemoryPerNode.Get()
	if !ok || !known || cpus > maxCPUs {
		return Need{}, false
	}
	n := Need{CPUs: uint32(cpus), Memory: memory, GRES: map[string]int64{}}
	items, err := tres.Parse(j.Asked.TRESPerNode)
	if err != nil {
		return Need{}, false
	}
	for _, item := range items {
		name := item.Type + "/" + item.Name
		if item.Model != "" {
			name += ":" + item.Model
		}
		n.GRES[name] = int64(item.Count)
	}
	return n, true
}
