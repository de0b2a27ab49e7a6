package dracpu

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// sharedByNode keeps the containers of each pod without a claim to one NUMA node.
const sharedByNode = "numanode"

// pools are the CPUs of containers without a claim at one moment.
type pools struct {
	shared cpuset.Set
	// byNode are the parts of shared by NUMA node, where each pod is kept to one.
	byNode []cpuset.Set
	// reserved are for the pods that run there.
	reserved cpuset.Set
}

// pools: mu is held.
func (l *ledger) pools() pools {
	p := pools{shared: l.shared(), reserved: l.reserved()}
	if l.sharedBy == sharedByNode {
		for _, node := range l.machine.Topology.NUMANodes() {
			p.byNode = append(p.byNode, node.Intersect(p.shared))
		}
	}
	return p
}

// of is what a container runs on besides CPUs of its own. It is empty if there is none left.
func (p pools) of(c *container) cpuset.Set {
	switch {
	case c.onReserved && !p.reserved.Empty():
		return p.reserved
	case len(p.byNode) > 1:
		return cpuset.HomeOf(p.byNode, string(c.pod))
	default:
		return p.shared
	}
}

// reserved are the online reserved CPUs that no claim has from a time when they weren't reserved. mu is held.
func (l *ledger) reserved() cpuset.Set {
	out := l.machine.Topology.All().Intersect(l.machine.Exposure.Reserved)
	for _, c := range l.claims {
		out = out.Minus(c.cpus())
	}
	return out
}

// shared is where containers without a claim run: on what is free and, if there is more, not a job's of Slurm; else on
// the reserved CPUs. It is empty if there is neither. mu is held.
func (l *ledger) shared() cpuset.Set {
	free := l.free()
	if rest := free.Minus(l.jobCPUs()); !rest.Empty() {
		return rest
	}
	if !free.Empty() {
		return free
	}
	return l.reserved()
}

// claimed are the CPUs that claims have.
func (l *ledger) claimed() cpuset.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out cpuset.Set
	for _, c := range l.claims {
		out = out.Union(c.cpus())
	}
	return out
}

// viewOf names what containers without a claim see of their CPUs: those that run on the same see the same file.
func (l *ledger) viewOf(c *container) string {
	switch {
	case c.onReserved:
		return "reserved"
	case l.sharedBy == sharedByNode:
		return "pod-" + string(c.pod)
	default:
		return "shared"
	}
}

// sharedViews are the CPUs of the containers without a claim by viewOf.
func (l *ledger) sharedViews() map[string]cpuset.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pools()
	out := map[string]cpuset.Set{"shared": p.shared}
	for _, c := range l.containers {
		if !c.exclusive() {
			out[l.viewOf(c)] = p.of(c)
		}
	}
	return out
}

// usedViews are the sets of the containers that have CPUs of their own, and the names of what the others see.
func (l *ledger) usedViews() (sets []cpuset.Set, shared []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.containers {
		if c.exclusive() {
			sets = append(sets, c.cpus)
		} else {
			shared = append(shared, l.viewOf(c))
		}
	}
	return sets, shared
}

// match tells whether a pod is one of those.
func match(all []pods, pod *api.PodSandbox) bool {
	return slices.ContainsFunc(all, func(s pods) bool {
		return pod.GetNamespace() == s.namespace && (s.label == "" || pod.GetLabels()[s.label] == s.value)
	})
}

// alone tells whether a pod's containers are left alone.
func (p *plugin) alone(pod *api.PodSandbox) bool { return match(p.selfManaged, pod) }

// setAlone notes a container that is left alone: a slurmd's, for one.
func (l *ledger) setAlone(id string, pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alone[id] = pod
}
