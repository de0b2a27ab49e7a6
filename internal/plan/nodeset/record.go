package nodeset

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// forget deletes Slurm's records of workers that are gone for good. Slurm would keep their old
// features and sizes for the next node of that name, and counts them against MaxNodeCount.
func (p *planner) forget() {
	if !p.Slurm.Known {
		return
	}
	inUse := make(map[string]bool, len(p.Pods))
	for i := range p.Pods {
		inUse[SlurmNode(&p.Pods[i])] = true
	}
	var unused []string
	for name := range p.Slurm.Nodes {
		if !inUse[name] {
			unused = append(unused, name)
		}
	}
	slices.Sort(unused)
	for _, name := range unused {
		n := p.Slurm.Nodes[name]
		switch why := p.defunct(n); {
		case why == "":
		case p.deletes >= burst:
			p.again(againAtOnce)
		default:
			p.deletes++
			p.leftRecords = true
			p.step(Step{Action: Forget, Node: name, Reason: why, Event: v1beta1.EventRecordPruned})
		}
	}
}

// defunct is why a record without a pod can go, empty for one that stays.
func (p *planner) defunct(n slurm.Node) string {
	mark, marked := workernode.MarkOf(n)
	if marked && mark.NodeSetUID != string(p.NodeSet.UID) {
		return "" // another NodeSet's
	}
	if p.removed(n) && (marked || !p.daemon() && p.namedAsOurs(n.Name)) {
		return "its pod is gone"
	}
	if p.NodeSet.Spec.PruneSlurmNodeRecords != v1beta1.PruneNodeNotFound && !p.deleting() ||
		!marked || p.Slurm.busy(n.Name) || !n.States.Has(slurm.NodeDown, slurm.NodeNotResponding) {
		return ""
	}
	if p.deleting() {
		return "its NodeSet is being deleted"
	}
	if p.daemon() {
		node := p.Nodes[mark.Node]
		switch {
		case node == nil:
			return "Kubernetes node " + mark.Node + " is gone"
		case daemonHostname(node) != n.Name:
			return "Kubernetes node " + mark.Node + " has a worker of another name"
		}
		return ""
	}
	if ordinal, ok := p.ordinalOfNode(n.Name); ok && ordinal < int(p.desired()) {
		return "" // its pod comes back
	}
	return "its pod is gone, and none of its name is to come"
}

// removed tells whether the operator has taken a record's worker out of service for good. In
// DaemonSet mode another one comes to its place, unless the NodeSet goes.
func (p *planner) removed(n slurm.Node) bool {
	return workernode.OwnsReason(n.Reason) && p.Slurm.drained(n.Name) && (!p.daemon() || p.deleting())
}

// namedAsOurs tells whether a record has the name of a pod with an ordinal.
func (p *planner) namedAsOurs(name string) bool {
	_, ok := p.ordinalOfNode(name)
	return ok
}

// ordinalOfNode reads the ordinal out of a Slurm node's name.
func (p *planner) ordinalOfNode(name string) (int, bool) {
	prefix, err := p.NodeSet.HostnamePrefix()
	if err != nil {
		return 0, false
	}
	if prefix == "" {
		prefix = p.NodeSet.Name + "-"
	}
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || !strings.HasSuffix(prefix, "-") || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
