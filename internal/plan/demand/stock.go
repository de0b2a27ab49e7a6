package demand

import (
	"cmp"
	"slices"

	"github.com/slinky-hpc/slinky/slurm/tres"
)

// class is a kind of node: what doesn't change as jobs are placed.
type class struct {
	// set is an index, -1 for nodes outside of all sets.
	set        int
	partitions []string
	features   []string
	shape      Shape
	// bins have CPUs left, full have none but will soon.
	bins, full []*bin
	// soon: it has such bins.
	soon bool
	// spare is how many workers of the class could be added.
	spare int
}

// bin is nodes of a class of which the same is left.
type bin struct {
	left  stock
	nodes int
	// names are those of registered nodes, as many as nodes; nil for nodes still to come.
	names []string
	// added: they are to be added.
	added bool
	// idle: no job is on them, and none has been planned.
	idle bool
	// soon: the jobs on them end soon.
	soon bool
}

// fit is how many of the job's tasks a node takes of which so much is left.
func (a *ask) fit(left stock, whole Shape, idle bool) int {
	if a.wholeNode && !idle {
		return 0
	}
	n := min(a.tasksPerNode, a.tasks)
	if !left.unbounded {
		if left.cpus < a.cpusPerNode {
			return 0
		}
		n = min(n, left.cpus/a.cpusPerTask)
	}
	if whole.Memory > 0 {
		perTask := a.memoryPerCPU * uint64(a.cpusPerTask)
		switch {
		case a.wholeMemory && left.memory < whole.Memory, left.memory < a.memoryPerNode:
			return 0
		case perTask > 0:
			n = int(min(uint64(n), left.memory/perTask))
		}
	}
	if n <= 0 || times(left.gres, a.perNode, 1) == 0 {
		return 0
	}
	return times(without(left.gres, a.perNode, 1), a.perTask, n)
}

// fill takes what a number of the job's tasks use of a node, and jobWide of the job's own resources.
func (a *ask) fill(left stock, whole Shape, tasks int, jobWide []tres.GRES) stock {
	if left.unbounded {
		return left
	}
	cpus := max(tasks*a.cpusPerTask, a.cpusPerNode)
	cpus = (cpus + left.threads - 1) / left.threads * left.threads
	if a.wholeNode {
		cpus = left.cpus
	}
	left.cpus = max(0, left.cpus-cpus)
	memory := max(a.memoryPerNode, a.memoryPerCPU*uint64(cpus))
	if a.wholeMemory {
		memory = whole.Memory
	}
	left.memory -= min(left.memory, memory)
	left.gres = without(without(left.gres, a.perNode, 1), a.perTask, uint64(tasks))
	left.gres = without(left.gres, jobWide, 1)
	return left
}

// candidate is a bin, or the workers that could be added to a class, with what a node of it takes.
type candidate struct {
	class *class
	bin   *bin // nil for workers to add
	nodes int
	left  stock
	fit   int
}

// choice is how many nodes to take of a candidate.
type choice struct {
	candidate
	take int
}

// choose takes nodes in the order of the candidates until the job has what it needs; nil if it can't.
func (a *ask) choose(from []candidate) []choice {
	var out []choice
	nodes, tasks, wide := 0, a.tasks, slices.Clone(a.perJob)
	for _, c := range from {
		k := need(a.nodes-nodes, tasks, c.fit, wide, c.left)
		k = min(k, c.nodes, a.maxNodes-nodes)
		if k <= 0 {
			continue
		}
		out = append(out, choice{c, k})
		nodes += k
		tasks -= k * c.fit
		for i := range wide {
			wide[i].Count -= min(wide[i].Count, uint64(k)*count(c.left.gres, wide[i]))
		}
	}
	if nodes < a.nodes || tasks > 0 || slices.ContainsFunc(wide, func(g tres.GRES) bool { return g.Count > 0 }) {
		return nil
	}
	return out
}

// need is how many nodes alike it takes for what is missing: nodes, tasks and resources of the job.
func need(nodes, tasks, fit int, wide []tres.GRES, left stock) int {
	k := nodes
	if fit > 0 {
		k = max(k, (tasks+fit-1)/fit)
	}
	for _, g := range wide {
		if have := count(left.gres, g); have > 0 {
			k = max(k, int((g.Count+have-1)/have))
		}
	}
	return k
}

// byFit orders candidates so that few nodes are enough.
func byFit(a, b candidate) int { return cmp.Compare(b.fit, a.fit) }
