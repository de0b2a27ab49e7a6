package nodeset

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// Action is a kind of step.
type Action string

const (
	// CreateClaim creates Step.Claim.
	CreateClaim Action = "create claim"
	// OwnClaim gives the live claim the owners of Step.Claim.
	OwnClaim Action = "own claim"
	// CreatePod creates Step.Pod.
	CreatePod Action = "create"
	// AdoptPod makes the NodeSet the controller of Step.Pod.
	AdoptPod Action = "adopt"
	// DeletePod deletes Step.Pod, of which only the identity is given.
	DeletePod Action = "delete"
	// Drain sets Step.Node to DRAIN.
	Drain Action = "drain"
	// Undrain lifts a drain of ours from Step.Node.
	Undrain Action = "undrain"
	// Resume brings Step.Node back after its pod was replaced.
	Resume Action = "resume"
	// Forget deletes the record of Step.Node, whose pod is gone for good: what registers
	// under this name next begins anew.
	Forget Action = "forget"
	// Describe tells Slurm what Kubernetes knows about Step.Node.
	Describe Action = "describe"
	// Mark changes labels and annotations of Step.Pod.
	Mark Action = "mark"
	// Mirror makes conditions of Step.Pod say what Slurm says.
	Mirror Action = "mirror"
	// CreateRevision, UpdateRevision and DeleteRevision act on Step.Revision.
	CreateRevision Action = "create revision"
	UpdateRevision Action = "update revision"
	DeleteRevision Action = "delete revision"
	// CreateReservation, UpdateReservation and DeleteReservation act on Step.Reservation.
	CreateReservation Action = "create reservation"
	UpdateReservation Action = "update reservation"
	DeleteReservation Action = "delete reservation"
	// Wait does nothing: Step.Reason is what is waited for.
	Wait Action = "wait"
)

// Step is one thing to do.
type Step struct {
	Action Action
	Pod    *corev1.Pod
	Claim  *corev1.PersistentVolumeClaim
	// Node is the name of a Slurm node.
	Node        string
	Revision    *appsv1.ControllerRevision
	Reservation *slurm.ReservationRequest
	Reason      string
	// Side is what keeps a worker's pod and its Slurm node in step; nil for other steps.
	Side *workernode.Plan
	// Slot is the place of a pod: its ordinal, or its Kubernetes node.
	Slot string
	// Failed tells that the pod in the slot came to nothing. The slot is served again after a while.
	Failed bool
	// Force deletes a pod whatever runs there: the user's deadline is over.
	Force bool
	// Event is the reason of the event that tells the user about the step, if it has one of its own.
	Event string
}

// Object is what the step acts on, as a kind and a name.
func (s Step) Object() (kind, name string) {
	switch {
	case s.Claim != nil:
		return "claim", s.Claim.Name
	case s.Revision != nil:
		return "revision", s.Revision.Name
	case s.Reservation != nil:
		return "reservation", s.Reservation.Name
	case s.Pod != nil:
		return "pod", s.Pod.Name
	}
	return "Slurm node", s.Node
}

func (s Step) String() string {
	_, on := s.Object()
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
	// Finalizers are those of ours that the NodeSet needs now.
	Finalizers []string
	// Again is when to plan again even if nothing is seen to change.
	Again time.Duration
}

// identity is what is needed to act on exactly this pod.
func identity(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}
