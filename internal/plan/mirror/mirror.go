// Package mirror plans how a Kubernetes node is shown in Slurm as an external
// node, and what the bridge writes on the Kubernetes node. It is pure.
package mirror

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/slurm"
)

// Facts are one node, as both sides know it. Either may be nil.
type Facts struct {
	Kube  *corev1.Node
	Slurm *slurm.Node
	// Cluster identifies the Kubernetes cluster.
	Cluster string
	// SchedulerName and TaintEffect make the taint of managed nodes; no effect, no taint.
	SchedulerName string
	TaintEffect   corev1.TaintEffect
}

// Plan is what to do, in this order. Its zero value is nothing.
type Plan struct {
	// Update, Delete and Create change the node in Slurm. Delete before Create
	// registers it anew.
	Update *slurm.NodeUpdate
	Delete bool
	Create *slurm.NodeCreate
	// Taints are the Kubernetes node's new taints where SetTaints is true.
	Taints    []corev1.Taint
	SetTaints bool
	// Notes are sentences for the administrator, on what hinders the node.
	Notes []string
}

// Changes tells whether the plan changes anything in Slurm.
func (p Plan) Changes() bool { return p.Update != nil || p.Delete || p.Create != nil }

// Mark is what the bridge keeps in the "extra" field of the external nodes that it made.
type Mark struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Features are those that the node was registered with: Slurm puts a node in
	// partitions by feature at that moment only.
	Features []string `json:"features,omitempty"`
}

type extra struct {
	Mark *Mark `json:"slinky.slurm.net/v1,omitempty"`
}

func (m Mark) encode() string {
	text, err := json.Marshal(extra{&m})
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// MarkOf returns the bridge's mark on a Slurm node, nil where there is none.
func MarkOf(n *slurm.Node) *Mark {
	var e extra
	if n == nil || json.Unmarshal([]byte(n.Extra), &e) != nil {
		return nil
	}
	return e.Mark
}

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
	case f.Slurm != nil && f.Kube != nil:
		p.drain(f, cordon(f.Kube))
	}
	if f.Kube != nil {
		p.taint(f, f.Slurm != nil && !p.Delete || p.Create != nil)
	}
	return p
}

func labelled(n *corev1.Node) bool {
	_, ok := n.Labels[v1beta1.LabelExternalNode]
	return ok
}

func external(n *slurm.Node) bool { return n.States.Has(slurm.NodeExternal) }

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

func (p *Plan) register(f Facts) {
	if ready(f.Kube) != "" {
		return
	}
	c, note := registration(f.Kube, f.Cluster)
	if note != "" {
		p.Notes = append(p.Notes, note)
		return
	}
	p.Create = &c
}

// registration describes a Kubernetes node to Slurm by what pods can use of it.
func registration(n *corev1.Node, cluster string) (slurm.NodeCreate, string) {
	cpus := int(n.Status.Allocatable.Cpu().MilliValue() / 1000)
	memory := n.Status.Allocatable.Memory().Value() >> 20
	address := internalIP(n)
	switch {
	case cpus < 1 || memory < 1:
		return slurm.NodeCreate{}, "the node offers less than one CPU or one MiB of memory to pods"
	case address == "":
		return slurm.NodeCreate{}, "the node has no InternalIP, without which Slurm would look its name up at each job start"
	}
	features := featuresOf(n)
	return slurm.NodeCreate{
		Name: placement.SlurmName(n), Address: address,
		CPUs: cpus, Sockets: 1, CoresPerSocket: cpus, ThreadsPerCore: 1,
		RealMemory: uint64(memory), Features: features,
		Topology: n.Annotations[v1beta1.AnnotationTopology],
		Extra:    Mark{Cluster: cluster, Node: n.Name, Features: features}.encode(),
		External: true,
	}, ""
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && a.Address != "" {
			return a.Address
		}
	}
	return ""
}

// featuresOf returns the partitions that the node's annotation names: in Slurm
// they are features, by which its configuration makes partitions.
func featuresOf(n *corev1.Node) []string {
	var out []string
	for _, name := range strings.Split(n.Annotations[v1beta1.AnnotationExternalNodePartitions], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// keep brings a registered node up to date. Nothing that would end a job is done while one runs.
func (p *Plan) keep(f Facts) {
	if why := ready(f.Kube); why != "" {
		p.drain(f, why)
		return
	}
	want, note := registration(f.Kube, f.Cluster)
	if note != "" {
		p.Notes = append(p.Notes, note)
		return
	}
	if why := p.anew(f, want); why != "" {
		if !busy(f.Slurm) {
			p.Delete, p.Create = true, &want
			return
		}
		p.update().Features = changed(f.Slurm.Features, want.Features)
		p.drain(f, why+"; it is registered anew once no job runs on it")
		return
	}
	if f.Slurm.Address != want.Address {
		p.update().Address = want.Address
	}
	if f.Slurm.Topology != want.Topology {
		if _, set := f.Kube.Annotations[v1beta1.AnnotationTopology]; set || MarkOf(f.Slurm) != nil {
			p.update().Topology = &want.Topology
		}
	}
	if MarkOf(f.Slurm) == nil {
		p.update().Extra = &want.Extra
	}
	for _, name := range want.Features {
		if !slices.Contains(f.Slurm.Partitions, name) {
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm has the node, but not in partition %s: slurm.conf needs "+
				"NodeSet=%s Feature=%s and PartitionName=%s Nodes=%s", name, name, name, name, name))
		}
	}
	p.drain(f, cordon(f.Kube))
}

// anew returns why a node must be registered anew, "" if it needn't.
func (p *Plan) anew(f Facts, want slurm.NodeCreate) string {
	have := f.Slurm
	switch mark := MarkOf(have); {
	case have.CPUs != want.CPUs:
		return fmt.Sprintf("its CPUs changed from %d to %d", have.CPUs, want.CPUs)
	case have.RealMemory > want.RealMemory, have.RealMemory < want.RealMemory-want.RealMemory/50:
		return fmt.Sprintf("its memory changed from %d to %d MiB", have.RealMemory, want.RealMemory)
	case have.States.Has(slurm.NodeNotResponding):
		return "Slurm takes it for not responding, from which an external node doesn't recover"
	case mark != nil && !slices.Equal(mark.Features, want.Features):
		return "its partitions changed"
	case mark == nil && len(want.Features) > 0 && changed(have.Features, want.Features) != nil:
		return "its partitions changed"
	}
	return ""
}

func changed(have, want []string) []string {
	have = slices.Sorted(slices.Values(have))
	if slices.Equal(have, want) {
		return nil
	}
	return want
}

func (p *Plan) remove(f Facts) {
	if !busy(f.Slurm) {
		p.Delete = true
		return
	}
	p.drain(f, "it is no longer an external node; it is removed once no job runs on it")
}

// drain makes the node's drain in Slurm what why says: "" for none. A drain that
// somebody else made stays as it is.
func (p *Plan) drain(f Facts, why string) {
	defer func() {
		if p.Update != nil && emptyUpdate(*p.Update) {
			p.Update = nil
		}
	}()
	drained := f.Slurm.States.Has(slurm.NodeDrain)
	ours := strings.HasPrefix(f.Slurm.Reason, v1beta1.BridgeReasonPrefix)
	reason := v1beta1.BridgeReasonPrefix + why
	switch {
	case why == "" && drained && ours:
		p.update().State = "UNDRAIN"
	case why != "" && (!drained || ours && f.Slurm.Reason != reason):
		u := p.update()
		u.State, u.Reason = "DRAIN", reason
	}
}

func (p *Plan) update() *slurm.NodeUpdate {
	if p.Update == nil {
		p.Update = &slurm.NodeUpdate{}
	}
	return p.Update
}

func emptyUpdate(u slurm.NodeUpdate) bool {
	return u.State == "" && u.Features == nil && u.Address == "" && u.Comment == nil && u.Extra == nil && u.Topology == nil
}

// ready returns why a node can't start pods, "" if it can.
func ready(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return "its kubelet is not ready"
		}
	}
	return ""
}

func cordon(n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "it is cordoned in Kubernetes"
	}
	return ""
}

// taint plans the taint of a managed node.
func (p *Plan) taint(f Facts, managed bool) {
	want := corev1.Taint{Key: v1beta1.TaintManagedNode, Value: f.SchedulerName, Effect: f.TaintEffect}
	managed = managed && f.TaintEffect != ""
	var out []corev1.Taint
	found := false
	for _, t := range f.Kube.Spec.Taints {
		switch {
		case t.Key != v1beta1.TaintManagedNode:
			out = append(out, t)
		case managed && !found && t.Value == want.Value && t.Effect == want.Effect:
			found = true
			out = append(out, t)
		case t.Value != f.SchedulerName:
			// Another bridge's.
			out = append(out, t)
		}
	}
	if managed && !found {
		out = append(out, want)
	}
	if len(out) != len(f.Kube.Spec.Taints) || managed && !found {
		p.Taints, p.SetTaints = out, true
	}
}
