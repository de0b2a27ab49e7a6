package exporter

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/slinky-hpc/slinky/internal/plan/demand"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// nodeSet are the workers of one NodeSet. Slurm's nodes carry the operator's mark, so Kubernetes isn't asked.
type nodeSet struct {
	namespace, name string
	nodes           []slurm.Node
	idle            int
}

// nodeSets finds the workers of each NodeSet, and the nodes of none.
func nodeSets(nodes []slurm.Node) (sets []*nodeSet, others []slurm.Node) {
	found := map[[2]string]*nodeSet{}
	for i := range nodes {
		mark, ok := workernode.MarkOf(nodes[i])
		if !ok {
			others = append(others, nodes[i])
			continue
		}
		key := [2]string{mark.Namespace, mark.NodeSet}
		if found[key] == nil {
			found[key] = &nodeSet{namespace: mark.Namespace, name: mark.NodeSet}
		}
		s := found[key]
		s.nodes = append(s.nodes, nodes[i])
		if usable(&nodes[i]) && nodes[i].States.Has(slurm.NodeIdle) && !nodes[i].States.Has(slurm.NodeCompleting) {
			s.idle++
		}
	}
	sets = slices.SortedFunc(maps.Values(found), func(a, b *nodeSet) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, s := range sets {
		slices.SortFunc(s.nodes, func(a, b slurm.Node) int { return cmp.Compare(a.Name, b.Name) })
	}
	return sets, others
}

// set is a NodeSet as the operator's own planner sees it: with room for all that waits, and no worker
// kept that no job needs. How fast workers may come and go is the business of who acts on it.
func (s *nodeSet) set() demand.Set {
	out := demand.Set{Name: s.namespace + "/" + s.name, SlurmName: s.name, Max: math.MaxInt16, Replicas: int32(min(len(s.nodes), math.MaxInt16))}
	partitions := map[string]bool{}
	for i := range s.nodes {
		n := &s.nodes[i]
		out.Workers = append(out.Workers, demand.Worker{Node: n, Leaving: workernode.Draining(*n) && workernode.OwnsReason(n.Reason)})
		for _, name := range n.Partitions {
			partitions[name] = true
		}
		// The least that each worker offers is what a new one offers at least.
		if shape := demand.ShapeOf(*n); !out.Shape.Known() || shape.CPUs < out.Shape.CPUs {
			out.Shape = shape
		}
	}
	out.Partitions = slices.Sorted(maps.Keys(partitions))
	return out
}

// nodeSets adds the workers of each NodeSet, and how many its jobs need: those that run, and those that
// wait and more workers would help.
func (p *page) nodeSets(c *census) {
	sets, others := nodeSets(c.Facts.Nodes)
	if len(sets) == 0 {
		return
	}
	f := demand.Facts{Now: c.Now, Others: others}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; !j.States.JobEnded() || j.States.Has(slurm.JobCompleting) {
			f.Jobs = append(f.Jobs, *j)
		}
	}
	for _, s := range sets {
		f.Sets = append(f.Sets, s.set())
	}
	plan := demand.Make(f)
	for i, s := range sets {
		d := plan.Decisions[i]
		labels := []string{"nodeset", s.name, "nodeset_namespace", s.namespace}
		one := newNodes()
		for j := range s.nodes {
			one.add(readNode(&s.nodes[j]))
		}
		p.gauge("slurm_nodeset_workers", "Workers of the NodeSet that Slurm knows.", float64(len(s.nodes)), labels...)
		p.gauge("slurm_nodeset_workers_idle", "Workers without a job that a job could have.", float64(s.idle), labels...)
		p.gauge("slurm_nodeset_workers_down", "Workers that are down or don't respond.", float64(one.away), labels...)
		p.gauge("slurm_nodeset_workers_draining", "Workers that drain or are drained.", float64(one.states[slurm.NodeDrain]), labels...)
		p.gauge("slurm_nodeset_workers_wanted", "Workers that the jobs need which run, and which wait and more workers would help.", float64(d.Replicas), labels...)
		p.gauge("slurm_nodeset_waiting_jobs", "Waiting jobs that more workers would help.", float64(d.Served), labels...)
		p.gauge("slurm_nodeset_cpus", "CPUs of its workers.", float64(one.cpus), labels...)
		p.gauge("slurm_nodeset_cpus_alloc", "CPUs of its workers that jobs have.", float64(one.alloc), labels...)
		p.gauge("slurm_nodeset_gpus", "GPUs of its workers.", float64(one.gpus), labels...)
		p.gauge("slurm_nodeset_gpus_alloc", "GPUs of its workers that jobs have.", float64(one.gpusAlloc), labels...)
		p.gauge("slurm_nodeset_memory_bytes", "Memory of its workers, in bytes.", inBytes(one.memory), labels...)
		p.gauge("slurm_nodeset_memory_alloc_bytes", "Memory of its workers that jobs have, in bytes.", inBytes(one.memoryAlloc), labels...)
	}
}
