package workernode

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// mirrored is the pod condition that a state becomes. Of the base states a node has exactly one.
func mirrored(state string) (kind corev1.PodConditionType, ok bool) {
	switch state {
	case slurm.NodeAllocated, slurm.NodeDown, slurm.NodeError, slurm.NodeFuture, slurm.NodeIdle, slurm.NodeMixed, slurm.NodeUnknown,
		slurm.NodeCompleting, slurm.NodeDrain, slurm.NodeFail, slurm.NodeInvalid, slurm.NodeMaintenance, slurm.NodeUndrain:
		return corev1.PodConditionType(v1beta1.PodConditionPrefix + state[:1] + strings.ToLower(state[1:])), true
	case slurm.NodeInvalidReg:
		return v1beta1.PodConditionInvalidReg, true
	case slurm.NodeNotResponding:
		return v1beta1.PodConditionNotResponding, true
	}
	return "", false
}

// mirror makes the pod's conditions say what Slurm says. Without an answer they stay.
func (p *planner) mirror() {
	if !p.Known {
		return
	}
	var want []corev1.PodCondition
	switch {
	case p.Registered:
		want = p.conditions()
	case p.overdue():
		want = []corev1.PodCondition{{Type: v1beta1.PodConditionNotRegistered, Status: corev1.ConditionTrue, Reason: v1beta1.ReasonReported,
			Message: "Slurm doesn't know node " + p.Name + ": slurmd is to register it again"}}
	}
	for _, c := range want {
		have := podCondition(p.Pod, c.Type)
		if have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			continue
		}
		c.LastTransitionTime = metav1.NewTime(p.Now)
		if have != nil && have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		if c.Type == v1beta1.PodConditionDrain && c.Reason == v1beta1.ReasonSetInSlurm {
			p.plan.Drained = drainedBy(p.Slurm)
		}
		p.plan.Conditions = append(p.plan.Conditions, c)
	}
	for _, c := range p.Pod.Status.Conditions {
		ours := strings.HasPrefix(string(c.Type), v1beta1.PodConditionPrefix) || c.Type == v1beta1.ConditionSlurmDrained
		if ours && !slices.ContainsFunc(want, func(w corev1.PodCondition) bool { return w.Type == c.Type }) {
			p.plan.Gone = append(p.plan.Gone, c.Type)
		}
	}
}

// RegisterGrace is how long a ready pod may be unknown to Slurm without a word.
const RegisterGrace = time.Minute

// overdue tells whether slurmd has been ready for so long that Slurm should know its node.
func (p *planner) overdue() bool {
	c := podCondition(p.Pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && p.Pod.DeletionTimestamp == nil && !c.LastTransitionTime.IsZero() &&
		!p.Now.Before(c.LastTransitionTime.Add(RegisterGrace))
}

// conditions are in the order of Slurm's state words, which is sorted.
func (p *planner) conditions() []corev1.PodCondition {
	n := p.Slurm
	reason := v1beta1.ReasonReported
	switch {
	case OwnsReason(n.Reason):
		reason = v1beta1.ReasonSetByOperator
	case n.Reason != "":
		reason = v1beta1.ReasonSetInSlurm
	}
	var out []corev1.PodCondition
	for _, state := range n.States {
		if kind, ok := mirrored(state); ok {
			out = append(out, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: n.Reason})
		}
	}
	if !Draining(n) {
		return out
	}
	drained := corev1.PodCondition{Type: v1beta1.ConditionSlurmDrained, Status: corev1.ConditionTrue, Reason: v1beta1.ReasonDrained, Message: n.Reason}
	if Busy(n) {
		drained.Status, drained.Reason = corev1.ConditionFalse, v1beta1.ReasonDraining
		drained.Message = "jobs still run: " + n.Reason
	}
	return append(out, drained)
}

func drainedBy(n slurm.Node) string {
	by := ""
	if n.ReasonUser != "" {
		by = " by " + n.ReasonUser
	}
	return "Slurm node " + n.Name + " was drained in Slurm" + by + ": " + n.Reason + "; it stays so until it is resumed there"
}

// refusals are the reasons that slurmctld gives a node whose registration it doesn't take.
func refusals() []string {
	return []string{"Low RealMemory", "Low socket*core*thread count", "Low CPUs", "Low TmpDisk", "count reported lower than configured", "Failed to set topology"}
}

// problem tells when Slurm refuses what slurmd says about its machine.
func (p *planner) problem() {
	n := p.Slurm
	if !p.Known || !p.Registered {
		return
	}
	invalid := n.States.HasAny(slurm.NodeInvalid, slurm.NodeInvalidReg)
	if !invalid && !slices.ContainsFunc(refusals(), func(text string) bool { return strings.Contains(n.Reason, text) }) {
		return
	}
	reason := n.Reason
	if reason == "" {
		reason = "no reason is given; slurmctld's log has it"
	}
	p.plan.Problem = "Slurm node " + p.Name + " is out of service, for Slurm refused what its slurmd registered (" + reason + "): "
	if invalid {
		p.plan.Problem += "correct extraConf, the limits, gres.conf or the topology, then delete its pod"
	} else {
		p.plan.Problem += "once that is mended, resume it (scontrol update nodename=" + p.Name + " state=resume) or delete its pod"
	}
}
