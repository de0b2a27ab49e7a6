// Package workernode keeps the two sides of one worker in step: its pod on a Kubernetes node,
// and its node in Slurm. It is pure: what both sides say and the time are arguments, what to
// write to either is the result.
package workernode

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// Facts is what is known about one worker.
type Facts struct {
	NodeSet *v1beta1.NodeSet
	// Pod is one that is there to stay: neither ended nor terminating.
	Pod *corev1.Pod
	// Kube is the Kubernetes node under the pod; nil where it isn't known.
	Kube *corev1.Node
	// Remove is why the NodeSet is to lose this pod, empty for a pod that stays.
	Remove string
	// Propagated are the types of Kubernetes node conditions that explain a cordon.
	Propagated []string

	// Name is the worker's name in Slurm.
	Name string
	// Known tells whether Slurm has answered, and recently; Registered whether it has the node.
	Known, Registered bool
	Slurm             slurm.Node
	// Deadline is when the last running job there must have ended, zero for none.
	Deadline time.Time

	Now time.Time
}

// Action is what an update does to a Slurm node.
type Action string

const (
	// Drain takes it out of service, or gives a drain of ours another reason.
	Drain Action = "drain"
	// Undrain lifts a drain of ours.
	Undrain Action = "undrain"
	// Resume brings a node back that went down with its pod.
	Resume Action = "resume"
	// Describe tells Slurm what Kubernetes knows about the node.
	Describe Action = "describe"
)

// Update is one write to Slurm.
type Update struct {
	Action Action
	Change slurm.NodeUpdate
	// Why, as a sentence without an end.
	Why string
	// Cordon tells that a cordoned Kubernetes node is the cause.
	Cordon bool
	// Blame is the field to correct if Slurm refuses the change; empty where none is.
	Blame string
}

// Plan is what to write now. Each of its parts is one write to one object; there is at most
// one to Slurm and one to the pod.
type Plan struct {
	Update *Update
	// Labels and Annotations are changes of the pod's; nil removes one.
	Labels, Annotations map[string]*string
	// Why the pod's labels and annotations change.
	Why []string
	// Conditions to set on the pod, and types of conditions to remove from it.
	Conditions []corev1.PodCondition
	Gone       []corev1.PodConditionType
	// Drained is what somebody else has just drained the node for, empty for nothing.
	Drained string
	// Problem is what a person must see to, empty for nothing.
	Problem string
}

// Make plans one worker.
func Make(f Facts) Plan {
	p := planner{Facts: f}
	cause := f.cause()
	p.drain(cause)
	if p.plan.Update == nil {
		p.describe()
	}
	p.cordon(cause)
	p.protect()
	p.deadline()
	p.annotateTopology()
	if len(p.plan.Labels)+len(p.plan.Annotations) == 0 {
		p.mirror()
	}
	p.problem()
	return p.plan
}

type planner struct {
	Facts
	plan Plan
}

func (p *planner) label(key string, value *string, why string) {
	if p.plan.Labels == nil {
		p.plan.Labels = map[string]*string{}
	}
	p.plan.Labels[key] = value
	p.plan.Why = append(p.plan.Why, why)
}

func (p *planner) annotate(key string, value *string) {
	if p.plan.Annotations == nil {
		p.plan.Annotations = map[string]*string{}
	}
	p.plan.Annotations[key] = value
}

// protect labels a pod whose Slurm node has jobs, which keeps it from being evicted.
func (p *planner) protect() {
	want := p.NodeSet.Spec.WorkloadDisruptionProtection == nil || *p.NodeSet.Spec.WorkloadDisruptionProtection
	has := p.Pod.Labels[v1beta1.LabelNodeSetPodProtect] == "true"
	busy := Busy(p.Slurm)
	switch {
	case want && !p.Known:
		// What was true stays true until Slurm says otherwise.
	case want && busy && !has:
		yes := "true"
		p.label(v1beta1.LabelNodeSetPodProtect, &yes, "Slurm node "+p.Name+" has jobs")
	case has && !(want && busy):
		p.label(v1beta1.LabelNodeSetPodProtect, nil, "Slurm node "+p.Name+" has no jobs that are protected")
	}
}

// deadline tells autoscalers and people until when jobs may run on the worker.
func (p *planner) deadline() {
	have, want := p.Pod.Annotations[v1beta1.AnnotationPodDeadline], ""
	if !p.Deadline.IsZero() {
		want = p.Deadline.UTC().Format(time.RFC3339)
	}
	switch {
	case !p.Known || want == have:
	case want == "":
		p.annotate(v1beta1.AnnotationPodDeadline, nil)
		p.plan.Why = append(p.plan.Why, "no job runs on Slurm node "+p.Name)
	default:
		p.annotate(v1beta1.AnnotationPodDeadline, &want)
		p.plan.Why = append(p.plan.Why, "jobs on Slurm node "+p.Name+" end by "+want)
	}
}

// Busy tells whether jobs use a node.
func Busy(n slurm.Node) bool {
	return n.States.HasAny(slurm.NodeAllocated, slurm.NodeMixed, slurm.NodeCompleting)
}

// Draining tells whether a node takes no more jobs; some may still run.
func Draining(n slurm.Node) bool {
	return n.States.Has(slurm.NodeDrain) && !n.States.Has(slurm.NodeUndrain)
}

// OwnsReason tells whether the operator wrote a Slurm node's reason.
func OwnsReason(reason string) bool {
	return len(reason) >= len(v1beta1.OperatorReasonPrefix) && reason[:len(v1beta1.OperatorReasonPrefix)] == v1beta1.OperatorReasonPrefix
}

// Ready tells whether a pod is.
func Ready(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
