package nodeset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// Action is a kind of step.
type Action string

const (
	// CreateClaim creates Step.Claim.
	CreateClaim Action = "create claim"
	// CreatePod creates Step.Pod.
	CreatePod Action = "create"
	// DeletePod deletes Step.Pod, of which only the identity is given.
	DeletePod Action = "delete"
	// Drain sets Step.Node to DRAIN.
	Drain Action = "drain"
	// Undrain lifts a drain of ours from Step.Node.
	Undrain Action = "undrain"
	// Resume brings Step.Node back after its pod was replaced.
	Resume Action = "resume"
	// Forget deletes the record of Step.Node, whose pod the operator has removed: what
	// registers under this name next begins anew.
	Forget Action = "forget"
	// Describe tells Slurm what Kubernetes knows about Step.Node.
	Describe Action = "describe"
	// Mark changes labels and annotations of Step.Pod.
	Mark Action = "mark"
	// Mirror makes conditions of Step.Pod say what Slurm says.
	Mirror Action = "mirror"
	// Wait does nothing: Step.Reason is what is waited for.
	Wait Action = "wait"
)

// Step is one thing to do.
type Step struct {
	Action Action
	Pod    *corev1.Pod
	Claim  *corev1.PersistentVolumeClaim
	// Node is the name of a Slurm node.
	Node   string
	Reason string
	// Side is what keeps a worker's pod and its Slurm node in step; nil for other steps.
	Side *workernode.Plan
}

func (s Step) String() string {
	on := s.Node
	switch {
	case s.Claim != nil:
		on = s.Claim.Name
	case s.Pod != nil:
		on = s.Pod.Name
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", s.Action, on, s.Reason))
}

// Problem is something that a person has to change.
type Problem struct {
	// Reason is one of the API's condition reasons.
	Reason, Message string
}

// Plan is what to do now. Steps are independent of each other, but for a claim and its pod.
type Plan struct {
	Steps    []Step
	Problems []Problem
	Status   v1beta1.NodeSetStatus
	// Again is when to plan again even if nothing is seen to change.
	Again time.Duration
}

// How long until a plan is made again, with and without something under way.
const (
	againSoon  = 3 * time.Second
	againLater = 15 * time.Second
)

// planner is one planning.
type planner struct {
	Facts
	plan Plan
	hash string
	// live are the pods that are there to stay, by ordinal.
	live []worker
	// taken are the ordinals that have any pod, also one on its way out.
	taken map[int]bool
}

// worker is a pod with what is known about it.
type worker struct {
	pod     *corev1.Pod
	ordinal int
	// node is its name in Slurm.
	node string
	old  bool
}

// Make plans the next steps of a NodeSet.
func Make(f Facts) Plan {
	p := planner{Facts: f, taken: map[int]bool{}}
	hash, err := revision(f.NodeSet)
	if err != nil {
		p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
	}
	p.hash = hash
	p.unsupported()
	p.sort()
	condemned := p.condemned()
	p.remove(condemned)
	p.forget()
	p.create()
	p.keepInStep(condemned)
	p.status()
	p.plan.Again = againLater
	if p.plan.Status.ReadyReplicas != p.desired() || len(p.live) != int(p.desired()) || len(condemned) > 0 || !f.Slurm.Known {
		p.plan.Again = againSoon
	}
	return p.plan
}

func (p *planner) step(s Step) { p.plan.Steps = append(p.plan.Steps, s) }

func (p *planner) problem(reason, message string) {
	p.plan.Problems = append(p.plan.Problems, Problem{reason, message})
}

// desired is the wanted number of pods.
func (p *planner) desired() int32 {
	if p.NodeSet.Spec.Replicas == nil {
		return 1
	}
	return max(0, *p.NodeSet.Spec.Replicas)
}

// unsupported names what the spec asks for and this version doesn't do.
func (p *planner) unsupported() {
	s := p.NodeSet.Spec
	for _, u := range []struct {
		asked bool
		what  string
	}{
		{s.ScalingMode == v1beta1.ScalingModeDaemonSet, "spec.scalingMode DaemonSet: this version makes no pods in this mode"},
		{s.PinToNode, "spec.pinToNode has no effect in this version"},
		{s.Ssh != nil && s.Ssh.Enabled, "spec.ssh has no effect in this version"},
		{s.UpdateStrategy.Type == v1beta1.UpdateScheduled, "spec.updateStrategy.type ScheduledUpdate works as OnDelete in this version"},
		{len(s.VolumeClaimTemplates) > 0 && s.PersistentVolumeClaimRetentionPolicy.WhenScaled == v1beta1.ClaimDelete,
			"spec.persistentVolumeClaimRetentionPolicy.whenScaled Delete works as Retain in this version"},
	} {
		if u.asked {
			p.problem(v1beta1.ReasonNotSupported, u.what)
		}
	}
}

// sort puts pods into live and taken, and has those that have ended deleted.
func (p *planner) sort() {
	for i := range p.Pods {
		pod := &p.Pods[i]
		ordinal, ok := ordinalOf(p.NodeSet.Name, pod.Name)
		if !ok {
			continue
		}
		p.taken[ordinal] = true
		switch {
		case pod.DeletionTimestamp != nil:
			p.step(Step{Action: Wait, Pod: identity(pod), Reason: "it is terminating"})
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			p.step(Step{Action: DeletePod, Pod: identity(pod), Reason: "its containers have ended: " + endedReason(pod)})
		default:
			p.live = append(p.live, worker{pod: pod, ordinal: ordinal, node: slurmNode(pod), old: p.hash != "" && pod.Labels[v1beta1.LabelRevisionHash] != p.hash})
		}
	}
	slices.SortFunc(p.live, func(a, b worker) int { return a.ordinal - b.ordinal })
	slices.SortFunc(p.plan.Steps, func(a, b Step) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
}

func endedReason(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return string(pod.Status.Phase)
}

// create makes the pods that are missing, at the lowest ordinals that are free.
func (p *planner) create() {
	if p.NodeSet.Spec.ScalingMode == v1beta1.ScalingModeDaemonSet || p.hash == "" {
		return
	}
	missing := int(p.desired()) - len(p.taken)
	for ordinal := 0; missing > 0; ordinal++ {
		if p.taken[ordinal] {
			continue
		}
		missing--
		claims, err := p.claims(ordinal)
		if err == nil {
			var pod *corev1.Pod
			if pod, err = p.pod(ordinal, claims); err == nil {
				for _, c := range claims {
					if !p.Claims[c.Name] {
						p.step(Step{Action: CreateClaim, Claim: c, Reason: "pod " + pod.Name + " uses it"})
					}
				}
				p.step(Step{Action: CreatePod, Pod: pod, Reason: fmt.Sprintf("%d of %d workers exist", len(p.taken), p.desired())})
				continue
			}
		}
		p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
		return
	}
}

// identity is what is needed to act on exactly this pod.
func identity(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}
