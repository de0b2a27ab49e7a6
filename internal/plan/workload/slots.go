package workload

import (
	"cmp"
	"math"
	"slices"
)

// greatest returns the greatest need in each dimension.
func greatest(needs []Need) Need {
	var out Need
	for _, n := range needs {
		out.CPUs = max(out.CPUs, n.CPUs)
		out.Memory = max(out.Memory, n.Memory)
		for name, count := range n.GRES {
			if out.GRES == nil {
				out.GRES = map[string]int64{}
			}
			out.GRES[name] = max(out.GRES[name], count)
		}
	}
	return out
}

// slotsOf packs pods into equal tasks, of which each is large enough for the
// largest pod: small pods share one. So whatever nodes Slurm takes for the tasks,
// the pods fit there. threads is the greatest number of threads per core of a node
// that may be taken; a pod takes whole cores. With perNode no more pods than that
// may be on one node. Then, and where there would be less than atLeast tasks, each
// pod is a task. fits tells whether some node is as large as a task.
func slotsOf(needs []Need, threads, perNode, atLeast int, fits func(Need) bool) *Slots {
	s := Slots{PerNode: perNode}
	for _, n := range needs {
		k := slices.IndexFunc(s.Needs, n.Equal)
		if k < 0 {
			k = len(s.Needs)
			s.Needs = append(s.Needs, n)
		}
		s.Need = append(s.Need, k)
	}
	rounded := make([]Need, len(s.Needs))
	for i, n := range s.Needs {
		rounded[i] = n
		rounded[i].CPUs = wholeCores(n.CPUs, threads)
	}
	s.Task = greatest(rounded)
	s.Slot = make([]int, len(needs))
	for i := range s.Slot {
		s.Slot[i] = i
	}
	if len(s.Needs) == 1 {
		s.Need = nil
		return &s
	}
	if perNode > 0 {
		return &s
	}
	best, waste := s, s.waste(rounded)
	// A task of the largest pod's CPUs may hold small pods of more memory together, and the other way round.
	bounds := []Need{s.Task, {CPUs: s.Task.CPUs, Memory: math.MaxUint64, GRES: s.Task.GRES}, {CPUs: math.MaxUint32, Memory: s.Task.Memory, GRES: s.Task.GRES}}
	for i, bound := range bounds {
		t := s.pack(rounded, bound)
		if w := t.waste(rounded); w < waste && t.Tasks() >= atLeast && (i == 0 || fits(t.Task)) {
			best, waste = t, w
		}
	}
	return &best
}

// one puts all pods into one task, which has no more than they need, where Slurm can count that many CPUs.
func (s *Slots) one(threads int) *Slots {
	sum := Need{GRES: map[string]int64{}}
	cpus := uint64(0)
	for place := range s.Slot {
		n := s.Of(place)
		cpus += uint64(wholeCores(n.CPUs, threads))
		sum.Memory += n.Memory
		for name, count := range n.GRES {
			sum.GRES[name] += count
		}
	}
	if cpus > maxCPUs {
		return s
	}
	sum.CPUs = uint32(cpus)
	out := *s
	out.Task, out.Slot = sum, make([]int, len(s.Slot))
	return &out
}

// waste is how many times more the tasks take than the pods need, of what they waste most of.
func (s *Slots) waste(rounded []Need) float64 {
	var cpus, memory float64
	for place := range s.Slot {
		cpus += float64(rounded[s.Need[place]].CPUs)
		memory += float64(rounded[s.Need[place]].Memory)
	}
	tasks := float64(s.Tasks())
	out := max(tasks*float64(s.Task.CPUs)/cpus, tasks*float64(s.Task.Memory)/max(memory, 1))
	for name, count := range s.Task.GRES {
		sum := 0.0
		for place := range s.Slot {
			sum += float64(rounded[s.Need[place]].GRES[name])
		}
		out = max(out, tasks*float64(count)/sum)
	}
	return out
}

// wholeCores rounds a number of CPUs up to whole cores, one at least.
func wholeCores(cpus uint32, threads int) uint32 {
	t := uint32(max(threads, 1))
	return (max(cpus, 1) + t - 1) / t * t
}

// pack puts the largest pods first, each into the first task with room for it.
func (s Slots) pack(rounded []Need, bound Need) Slots {
	order := make([]int, len(s.Need))
	for i := range order {
		order[i] = i
	}
	size := make([]float64, len(rounded))
	for i, n := range rounded {
		size[i] = share(n, s.Task)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[s.Need[b]], size[s.Need[a]]) })
	s.Slot = make([]int, len(s.Need))
	var used []Need
	for _, place := range order {
		n := rounded[s.Need[place]]
		slot := slices.IndexFunc(used, func(u Need) bool { return room(u, n, bound) })
		if slot < 0 {
			slot = len(used)
			used = append(used, Need{GRES: map[string]int64{}})
		}
		used[slot].CPUs += n.CPUs
		used[slot].Memory += n.Memory
		for name, count := range n.GRES {
			used[slot].GRES[name] += count
		}
		s.Slot[place] = slot
	}
	s.Task = greatest(used)
	s.renumber(len(used))
	return s
}

// share is the largest part of the largest pod that a pod is in any dimension.
func share(n, largest Need) float64 {
	out := max(float64(n.CPUs)/float64(largest.CPUs), float64(n.Memory)/float64(max(largest.Memory, 1)))
	for name, count := range n.GRES {
		out = max(out, float64(count)/float64(largest.GRES[name]))
	}
	return out
}

// room tells whether something used and a pod together stay within a bound.
func room(used, n, bound Need) bool {
	if n.CPUs > bound.CPUs-used.CPUs || n.Memory > bound.Memory-used.Memory {
		return false
	}
	for name, count := range n.GRES {
		if used.GRES[name]+count > bound.GRES[name] {
			return false
		}
	}
	return true
}

// renumber orders the tasks by their first pod, so that ranks follow the nodes.
func (s *Slots) renumber(tasks int) {
	number := make([]int, tasks)
	for i := range number {
		number[i] = -1
	}
	next := 0
	for place, slot := range s.Slot {
		if number[slot] < 0 {
			number[slot] = next
			next++
		}
		s.Slot[place] = number[slot]
	}
}
