package mirror

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// drain makes the node's drain in Slurm what why says: "" for none. It is the only
// place that decides so, once for each plan. A drain that somebody else made stays as it is.
func (p *Plan) drain(f Facts, why string) {
	defer func() {
		if p.Update != nil && emptyUpdate(*p.Update) {
			p.Update = nil
		}
	}()
	drained := f.Slurm.States.Has(slurm.NodeDrain)
	reason := v1beta1.BridgeReasonPrefix + why
	switch {
	case why == "" && drained && ours(f.Slurm):
		p.update().State = "UNDRAIN"
	case why != "" && (!drained || ours(f.Slurm) && f.Slurm.Reason != reason):
		u := p.update()
		u.State, u.Reason = "DRAIN", reason
	}
}

// ours tells whether the bridge gave the reason of a node's drain.
func ours(n *slurm.Node) bool { return strings.HasPrefix(n.Reason, v1beta1.BridgeReasonPrefix) }

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

// Taint returns the taint of managed nodes.
func Taint(p Policy) corev1.Taint {
	return corev1.Taint{Key: v1beta1.TaintManagedNode, Value: p.SchedulerName, Effect: p.TaintEffect}
}

// taint plans the taint of a managed node.
func (p *Plan) taint(f Facts, managed bool) {
	want := Taint(f.Policy)
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

// condition tells the Kubernetes node that Slurm gives it no jobs, for a reason
// which isn't the bridge's own. It isn't written on a node where that never was so.
func (p *Plan) condition(f Facts, managed bool) {
	want := corev1.NodeCondition{Type: v1beta1.ConditionSlurmAway, Status: corev1.ConditionFalse, Reason: "InService", Message: "Slurm gives the node jobs"}
	switch {
	case !managed:
		want.Reason, want.Message = "NotManaged", "Slurm doesn't manage the node"
	case !p.Delete:
		switch why := f.Slurm.Reason; {
		case f.Slurm.States.HasAny(slurm.NodeDown, slurm.NodeFail):
			want.Status, want.Reason, want.Message = corev1.ConditionTrue, "DownInSlurm", "the node is down in Slurm"+because(why, f.Slurm.ReasonUser)
		case f.Slurm.States.Has(slurm.NodeDrain) && !ours(f.Slurm):
			want.Status, want.Reason, want.Message = corev1.ConditionTrue, "DrainedInSlurm", "the node is drained in Slurm"+because(why, f.Slurm.ReasonUser)
		}
	}
	for _, c := range f.Kube.Status.Conditions {
		if c.Type == want.Type {
			if c.Status != want.Status || c.Reason != want.Reason || c.Message != want.Message {
				p.Condition = &want
			}
			return
		}
	}
	if want.Status == corev1.ConditionTrue {
		p.Condition = &want
	}
}

func because(reason, user string) string {
	switch {
	case reason == "":
		return ""
	case user == "":
		return ": " + reason
	}
	return fmt.Sprintf(" by %s: %s", user, reason)
}
