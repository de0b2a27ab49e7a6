package workernode

import (
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// cause is why a worker should take no more jobs.
type cause struct {
	text string
	// asked means that the pod's annotation is the cause, and whoever wrote it removes it.
	asked bool
	// cordon means that the Kubernetes node is cordoned.
	cordon bool
	// keep means that it can't be known whether there still is a cause.
	keep bool
}

func (c cause) none() bool { return c.text == "" && !c.keep }

// cause finds the first of what should keep jobs away, in the order of its weight: what ends
// the pod comes before what may pass.
func (f *Facts) cause() cause {
	pod := f.Pod.Namespace + "/" + f.Pod.Name
	if f.Remove != "" {
		return cause{text: "pod " + pod + " is to be removed: " + f.Remove}
	}
	if c := podCondition(f.Pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return cause{text: "Kubernetes is about to end pod " + pod + " " + because(c.Reason, c.Message)}
	}
	if f.Kube != nil {
		if f.Kube.Spec.Unschedulable {
			return cause{text: f.cordonReason(), cordon: true}
		}
		if trouble := trouble(f.Kube); trouble != "" {
			return cause{text: trouble}
		}
	}
	if f.cordonAsked() {
		return cause{text: "pod " + pod + " has the annotation " + v1beta1.AnnotationPodCordon, asked: true}
	}
	return cause{keep: f.Kube == nil && f.Pod.Spec.NodeName != ""}
}

// cordonAsked tells whether somebody else than the operator wants the pod cordoned.
func (f *Facts) cordonAsked() bool {
	_, ours := f.Pod.Annotations[v1beta1.AnnotationPodCordonCause]
	return f.Pod.Annotations[v1beta1.AnnotationPodCordon] == "true" && !ours
}

// cordonReason is what the node's annotation says, else what its conditions say.
func (f *Facts) cordonReason() string {
	if reason := printable(f.Kube.Annotations[v1beta1.AnnotationNodeCordonReason]); reason != "" {
		return reason
	}
	var out []string
	for _, kind := range f.Propagated {
		if c := nodeCondition(f.Kube, corev1.NodeConditionType(kind)); c != nil && c.Status == corev1.ConditionTrue {
			out = append(out, because(c.Reason, c.Message))
		}
	}
	if len(out) > 0 {
		return printable(strings.Join(out, "; "))
	}
	return "Kubernetes node " + f.Kube.Name + " is cordoned"
}

// trouble is what Kubernetes has found wrong with a node, empty for nothing.
func trouble(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return printable("Kubernetes node " + n.Name + " is out of service " + because(t.Value, ""))
		}
	}
	if c := nodeCondition(n, corev1.NodeReady); c != nil && c.Status != corev1.ConditionTrue {
		return printable("Kubernetes node " + n.Name + " is not ready " + because(c.Reason, c.Message))
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
		if c := nodeCondition(n, kind); c != nil && c.Status == corev1.ConditionTrue {
			return printable("Kubernetes node " + n.Name + " has the condition " + string(kind) + " " + because(c.Reason, c.Message))
		}
	}
	return ""
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// because is the form in which Slurm's users see conditions: (Reason: Message).
func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return "(" + reason + ")"
	}
	return "(" + reason + ": " + message + ")"
}

// longest is how many characters of somebody else's text go into a Slurm reason.
const longest = 256

// printable makes a text fit for a Slurm reason.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest])
	}
	return strings.TrimSpace(text)
}

// drain makes Slurm's state follow the causes. What somebody else set is never touched.
func (p *planner) drain(c cause) {
	if !p.Known || !p.Registered {
		return
	}
	n := p.Slurm
	ours, draining := OwnsReason(n.Reason), Draining(n)
	reason := v1beta1.OperatorReasonPrefix + c.text
	switch {
	case c.text != "" && draining && ours && n.Reason != reason && !n.States.Has(slurm.NodeDown):
		p.update(Drain, c, slurm.NodeUpdate{State: "DRAIN", Reason: reason}, "its drain has another cause now: "+c.text)
	case c.text != "" && draining:
	case c.text != "" && !ours && n.Reason != "" && p.Remove == "" && n.States.HasAny(slurm.NodeDown, slurm.NodeFail):
		// It takes no jobs, and somebody else has said why.
	case c.text != "" && !ours && n.Reason != "":
		// Somebody else gave this node a reason without draining it. The reason is kept.
		p.update(Drain, c, slurm.NodeUpdate{State: "DRAIN", Reason: n.Reason}, c.text)
	case c.text != "":
		p.update(Drain, c, slurm.NodeUpdate{State: "DRAIN", Reason: reason}, c.text)
	case !c.none() || !ours || !Ready(p.Pod):
		// Slurm must not send jobs to a slurmd that isn't there yet.
	case n.States.Has(slurm.NodeDown) && !n.States.Has(slurm.NodeNotResponding):
		// A person who sets DOWN has to give a reason: with one of ours, it was the end of the last pod.
		p.update(Resume, c, slurm.NodeUpdate{State: "RESUME"}, "its new pod is ready")
	case draining && !n.States.Has(slurm.NodeDown):
		p.update(Undrain, c, slurm.NodeUpdate{State: "UNDRAIN"}, "the cause of the drain is gone: "+n.Reason)
	}
}

func (p *planner) update(a Action, c cause, u slurm.NodeUpdate, why string) {
	p.plan.Update = &Update{Action: a, Change: u, Why: why, Cordon: c.cordon}
}

// cordon shows on the pod that the operator keeps jobs away, and why. An annotation that
// somebody else wrote stays.
func (p *planner) cordon(c cause) {
	have, ours := p.Pod.Annotations[v1beta1.AnnotationPodCordonCause]
	switch {
	case c.asked || p.cordonAsked():
	case c.text != "" && (have != c.text || p.Pod.Annotations[v1beta1.AnnotationPodCordon] != "true"):
		yes, text := "true", c.text
		p.annotate(v1beta1.AnnotationPodCordon, &yes)
		p.annotate(v1beta1.AnnotationPodCordonCause, &text)
		p.plan.Why = append(p.plan.Why, c.text)
	case c.none() && ours:
		p.annotate(v1beta1.AnnotationPodCordon, nil)
		p.annotate(v1beta1.AnnotationPodCordonCause, nil)
		p.plan.Why = append(p.plan.Why, "the cause is gone: "+have)
	}
}
