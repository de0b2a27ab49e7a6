// Package mirror plans how a Kubernetes node is shown in Slurm as an external
// node, and what the bridge writes on the Kubernetes node. It is pure.
package mirror

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/slurm"
)

// Facts are one node, as both sides know it. Kube and Slurm may be nil.
type Facts struct {
	Kube  *corev1.Node
	Slurm *slurm.Node
	// Devices are what the node's drivers publish.
	Devices device.Node
	// Uninstalled are drivers that no DeviceClass is for: they aren't waited for.
	Uninstalled []string
	// NamedBy is a job that hasn't ended and that names the node, 0 if there is none. It
	// need only be known for a node that is to be removed.
	NamedBy uint32
	// OwnPods are pods of the bridge itself that the taint would end.
	OwnPods []string
	Now     time.Time
	Policy
}

// Policy is what the administrator decides for all nodes.
type Policy struct {
	// Cluster identifies the Kubernetes cluster.
	Cluster string
	// SchedulerName and TaintEffect make the taint of managed nodes; no effect, no taint.
	SchedulerName string
	TaintEffect   corev1.TaintEffect
	// Shared tells which nodes with a slurmd of their own are managed, and Partition is
	// the bridge's.
	Shared    Shared
	Partition string
	// SinkAddress and SinkPort are of a slurmd that answers for external nodes; none if empty.
	SinkAddress string
	SinkPort    int
}

// Shared is which Kubernetes nodes that also are nodes of Slurm with a slurmd are managed.
type Shared string

const (
	// SharedInPartition are those in the bridge's partition.
	SharedInPartition Shared = "Partition"
	// SharedAll are all, as published.
	SharedAll Shared = "All"
	// SharedNone are none: only external nodes are managed.
	SharedNone Shared = "None"
)

// Plan is what to do, in this order. Its zero value is nothing.
type Plan struct {
	// Update, Delete and Create change the node in Slurm. Delete before Create
	// registers it anew, and Anew says why.
	Update *slurm.NodeUpdate
	Delete bool
	Create *slurm.NodeCreate
	Anew   string
	// Taints are the Kubernetes node's new taints where SetTaints is true.
	Taints    []corev1.Taint
	SetTaints bool
	// Condition is what the Kubernetes node's condition about Slurm becomes, nil if it
	// stays. It has no times.
	Condition *corev1.NodeCondition
	// Again is after which time to plan again although nothing changed, 0 for never.
	Again time.Duration
	// Notes are sentences for the administrator, on what hinders the node.
	Notes []string
}

// Changes tells whether the plan changes anything in Slurm.
func (p Plan) Changes() bool { return p.Update != nil || p.Delete || p.Create != nil }

// Make plans for one node.
func Make(f Facts) Plan {
	var p Plan
	wanted := f.Kube != nil && f.Kube.DeletionTimestamp == nil && labelled(f.Kube)
	switch {
	case wanted && f.Slurm == nil:
		p.register(f)
	case wanted && external(f.Slurm):
		p.keep(f)
	case f.Slurm != nil && external(f.Slurm) && removable(f):
		p.remove(f)
	case f.Slurm != nil && f.Kube != nil && managed(f):
		p.drain(f, cordon(f.Kube))
	case f.Slurm != nil && f.Kube != nil:
		p.drain(f, "")
	}
	if f.Kube != nil {
		is := p.Create != nil || f.Slurm != nil && !p.Delete && managed(f)
		if is && f.TaintEffect == corev1.TaintEffectNoExecute && !labelled(f.Kube) && len(f.OwnPods) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("the node isn't given the taint %s, because that would end the bridge's own pod %s: "+
				"let the bridge run elsewhere, or tolerate the taint", v1beta1.TaintManagedNode, f.OwnPods[0]))
			is = false
		}
		p.taint(f, is)
		p.condition(f, f.Slurm != nil && managed(f))
	}
	return p
}

func labelled(n *corev1.Node) bool {
	_, ok := n.Labels[v1beta1.LabelExternalNode]
	return ok
}

func external(n *slurm.Node) bool { return n.States.Has(slurm.NodeExternal) }

// managed tells whether a Kubernetes node that Slurm has is the bridge's. A node with
// a slurmd of its own may bear the name of a Kubernetes node, as the workers of an
// operator in DaemonSet mode do, without being meant for pods.
func managed(f Facts) bool {
	switch {
	case external(f.Slurm), labelled(f.Kube), f.Shared == SharedAll:
		return true
	case f.Shared == SharedNone:
		return false
	}
	return f.Partition != "" && slices.Contains(f.Slurm.Partitions, f.Partition)
}

func busy(n *slurm.Node) bool {
	return n.States.HasAny(slurm.NodeAllocated, slurm.NodeMixed, slurm.NodeCompleting) || n.AllocCPUs > 0
}

// removable tells whether the bridge may take an external node away: one that it
// made, or one of a Kubernetes node that lost the label.
func removable(f Facts) bool {
	if m := MarkOf(f.Slurm); m != nil {
		return m.Cluster == f.Cluster
	}
	return f.Kube != nil
}

// withheld tells whether somebody else keeps jobs from a node. Registering it anew would forget that.
func withheld(n *slurm.Node) bool {
	return n.States.HasAny(slurm.NodeDown, slurm.NodeFail) || n.States.Has(slurm.NodeDrain) && !ours(n)
}

func (p *Plan) register(f Facts) {
	switch {
	case ready(f.Kube) != "":
	case f.Devices.Unsettled != "":
		p.Notes = append(p.Notes, "the node isn't registered in Slurm yet: "+f.Devices.Unsettled)
	default:
		c, note := registration(f)
		if note != "" {
			p.Notes = append(p.Notes, note)
			return
		}
		p.Create = &c
	}
}

// keep brings a registered node up to date. Nothing that would end a job is done while one runs.
func (p *Plan) keep(f Facts) {
	if why := ready(f.Kube); why != "" {
		p.drain(f, why)
		return
	}
	want, note := registration(f)
	if note != "" {
		p.Notes = append(p.Notes, note)
		return
	}
	if f.Devices.Unusable != "" {
		p.Notes = append(p.Notes, f.Devices.Unusable)
	}
	why, wait := differs(f, want)
	switch {
	case wait != "":
		// Nothing is concluded from what is missing now.
		p.drain(f, wait)
		p.Again = waits(f, wait)
		return
	case why.reason != "" && !busy(f.Slurm) && !withheld(f.Slurm):
		p.Delete, p.Create, p.Anew = true, &want, why.reason
		return
	case why.reason != "" && !why.harmless:
		p.update().Features = changed(f.Slurm.Features, want.Features)
		p.drain(f, why.reason+"; it is registered anew once no job runs on it")
		return
	}
	p.adjust(f, want)
	p.drain(f, cordon(f.Kube))
}

// adjust changes what Slurm lets change.
func (p *Plan) adjust(f Facts, want slurm.NodeCreate) {
	if f.Slurm.Address != want.Address {
		p.update().Address = want.Address
	}
	if f.Slurm.Topology != want.Topology {
		if _, set := f.Kube.Annotations[v1beta1.AnnotationTopology]; set || MarkOf(f.Slurm) != nil {
			p.update().Topology = &want.Topology
		}
	}
	if m := MarkOf(f.Slurm); (m == nil || m.Shape == "") && sameShape(f.Slurm, want) {
		p.update().Extra = &want.Extra
	}
	for _, name := range want.Features {
		if !slices.Contains(f.Slurm.Partitions, name) {
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm has the node, but not in partition %s: slurm.conf needs "+
				"NodeSet=%s Feature=%s and PartitionName=%s Nodes=%s", name, name, name, name, name))
		}
	}
	for _, r := range f.Devices.Resources {
		if !hasGRES(f.Slurm.GRES, r.Name) {
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm has the node without its %d of %s: slurm.conf needs GresTypes=%s, "+
				"and the node must be registered again", r.Count, r.Name, r.Name))
		}
	}
}

func changed(have, want []string) []string {
	have = slices.Sorted(slices.Values(have))
	if slices.Equal(have, want) {
		return nil
	}
	return want
}

// jobsAgain is how often jobs that name a node are looked for: nothing tells the node of their end.
const jobsAgain = time.Minute

// remove takes a node out of Slurm once no job runs on it or names it: slurmctld
// ends a job that names a node which it doesn't know any more when it starts again.
func (p *Plan) remove(f Facts) {
	switch {
	case busy(f.Slurm):
		p.drain(f, "it is no longer an external node; it is removed once no job runs on it")
	case f.NamedBy != 0:
		p.drain(f, fmt.Sprintf("it is no longer an external node; it is removed once job %d, which names it, has ended", f.NamedBy))
		p.Again = jobsAgain
	default:
		p.Delete = true
	}
}

func (p *Plan) update() *slurm.NodeUpdate {
	if p.Update == nil {
		p.Update = &slurm.NodeUpdate{}
	}
	return p.Update
}
