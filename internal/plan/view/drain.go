package view

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

const ownReason = v1beta1.DrainReasonPrefix

// DrainPlan is what to change in both worlds, in this order: Slurm first, so that the cause
// that its users see is the one that was given, not the bridge's word for a cordon.
type DrainPlan struct {
	Slurm []SlurmChange `json:"slurm,omitempty"`
	// Cordon is the Kubernetes node to change, nil for none.
	Cordon *CordonChange `json:"kubernetes,omitempty"`
	// Notes are sentences on what is left as it is, and why.
	Notes []string `json:"notes,omitempty"`
}

// SlurmChange is a change of a Slurm node.
type SlurmChange struct {
	Node   string           `json:"node"`
	Update slurm.NodeUpdate `json:"update"`
}

// CordonChange is a change of a Kubernetes node. Annotations with a value of nil are removed.
type CordonChange struct {
	Node          string             `json:"node"`
	Unschedulable bool               `json:"unschedulable"`
	Annotations   map[string]*string `json:"annotations,omitempty"`
}

// Drain plans to keep new work away from a node in both worlds. A worker's name drains that
// worker; the name of a Kubernetes node drains it with all of its Slurm nodes. Drains of
// others stay as they are.
func (m *Model) Drain(name, reason, who string) (DrainPlan, error) {
	var p DrainPlan
	if strings.TrimSpace(reason) == "" {
		return p, fmt.Errorf("drain node %s: say why with --reason: it is what everybody sees who waits for the node", name)
	}
	kube, nodes, err := m.drainable(name)
	if err != nil {
		return p, err
	}
	text := ownReason + Text(strings.TrimSpace(reason)) + " (" + Text(who) + ")"
	for _, s := range nodes {
		switch {
		case s.States.Has(slurm.NodeDrain) && s.Reason == text:
		case s.States.Has(slurm.NodeDrain) && !strings.HasPrefix(s.Reason, ownReason):
			c, _ := slurmCause(s)
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm node %s stays as it is: %s", s.Name, c))
		default:
			p.Slurm = append(p.Slurm, SlurmChange{s.Name, slurm.NodeUpdate{State: "DRAIN", Reason: text}})
		}
	}
	if kube == nil {
		p.Notes = append(p.Notes, m.blind(nodes)...)
		return p, nil
	}
	by, ours := kube.Annotations[v1beta1.AnnotationDrainedBy]
	switch {
	case kube.Spec.Unschedulable && !ours:
		p.Notes = append(p.Notes, fmt.Sprintf("Kubernetes node %s stays as it is: somebody else has cordoned it", kube.Name))
	case kube.Spec.Unschedulable && by == who && kube.Annotations[v1beta1.AnnotationNodeCordonReason] == reason:
	default:
		p.Cordon = &CordonChange{kube.Name, true, map[string]*string{v1beta1.AnnotationDrainedBy: &who, v1beta1.AnnotationNodeCordonReason: &reason}}
	}
	return p, nil
}

// Undrain plans to lift what Drain did to a node, and nothing else.
func (m *Model) Undrain(name string) (DrainPlan, error) {
	var p DrainPlan
	kube, nodes, err := m.drainable(name)
	if err != nil {
		return p, err
	}
	for _, s := range nodes {
		switch c, stopped := slurmCause(s); {
		case s.States.Has(slurm.NodeDrain) && strings.HasPrefix(s.Reason, ownReason):
			p.Slurm = append(p.Slurm, SlurmChange{s.Name, slurm.NodeUpdate{State: "UNDRAIN"}})
		case !s.States.HasAny(slurm.NodeDrain, slurm.NodeDown, slurm.NodeFail):
		case stopped && (c.By == "bridge" || c.By == "operator"):
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm node %s is %s; the %s lifts that itself when its cause is gone", s.Name, c, c.By))
		case stopped:
			p.Notes = append(p.Notes, fmt.Sprintf("Slurm node %s stays as it is, as slinky didn't do it: %s", s.Name, c))
		}
	}
	if kube == nil {
		p.Notes = append(p.Notes, m.blind(nodes)...)
		return p, nil
	}
	switch _, ours := kube.Annotations[v1beta1.AnnotationDrainedBy]; {
	case ours:
		p.Cordon = &CordonChange{kube.Name, false, map[string]*string{v1beta1.AnnotationDrainedBy: nil, v1beta1.AnnotationNodeCordonReason: nil}}
	case kube.Spec.Unschedulable:
		p.Notes = append(p.Notes, fmt.Sprintf("Kubernetes node %s stays cordoned, as slinky didn't do it: kubectl uncordon %s", kube.Name, kube.Name))
	}
	return p, nil
}

// blind says that nothing is done in Kubernetes, where its node may be there but can't be seen.
func (m *Model) blind(nodes []*slurm.Node) []string {
	k := m.Kubernetes
	if k.Absent || k.has(PartNodes) {
		return nil
	}
	for _, s := range nodes {
		if _, worker := workernode.MarkOf(*s); worker {
			return nil // it is drained alone
		}
	}
	return []string{"nothing is done in Kubernetes, as its nodes can't be read: " + cmp.Or(k.why(PartNodes), k.Error)}
}

// drainable finds what a name stands for: a Kubernetes node with its Slurm nodes, or Slurm nodes alone.
func (m *Model) drainable(name string) (kube *corev1.Node, nodes []*slurm.Node, err error) {
	on := map[string]bool{}
	for _, n := range m.Nodes() {
		if n.Slurm == name && n.Role != RoleWorker && n.Kubernetes != "" {
			name = n.Kubernetes // an external node under another name
		}
	}
	for i := range m.Kubernetes.Nodes {
		if m.Kubernetes.Nodes[i].Name == name {
			kube = &m.Kubernetes.Nodes[i]
		}
	}
	for _, n := range m.Nodes() {
		if n.Slurm != "" && (n.Slurm == name || kube != nil && n.Kubernetes == name) {
			on[n.Slurm] = true
		}
	}
	for i := range m.Slurm.Nodes {
		if on[m.Slurm.Nodes[i].Name] {
			nodes = append(nodes, &m.Slurm.Nodes[i])
		}
	}
	if kube == nil && len(nodes) == 0 {
		return nil, nil, NotFoundError{fmt.Sprintf("neither Kubernetes nor Slurm has a node that is called %q: slinky nodes lists them", name)}
	}
	return kube, nodes, nil
}

// DrainStep is one change of a DrainPlan, with a sentence on it.
type DrainStep struct {
	Slurm  *SlurmChange
	Cordon *CordonChange
	Text   string
}

// Steps returns the changes in the order in which they are to be made.
func (p DrainPlan) Steps() []DrainStep {
	var out []DrainStep
	for i := range p.Slurm {
		c := &p.Slurm[i]
		text := fmt.Sprintf("Slurm node %s: drained, with the reason %q", c.Node, c.Update.Reason)
		if c.Update.State == "UNDRAIN" {
			text = fmt.Sprintf("Slurm node %s: the drain is lifted", c.Node)
		}
		out = append(out, DrainStep{Slurm: c, Text: text})
	}
	if c := p.Cordon; c != nil {
		text := fmt.Sprintf("Kubernetes node %s: cordoned", c.Node)
		if !c.Unschedulable {
			text = fmt.Sprintf("Kubernetes node %s: uncordoned", c.Node)
		}
		out = append(out, DrainStep{Cordon: c, Text: text})
	}
	return out
}
