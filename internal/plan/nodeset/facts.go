// Package nodeset plans the worker pods of a NodeSet and the state of their Slurm nodes.
// It is pure: pods, Slurm nodes, Kubernetes nodes and the time are arguments, the steps
// to take are its result.
package nodeset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// Facts is all that a NodeSet's plan depends on.
type Facts struct {
	NodeSet    *v1beta1.NodeSet
	Controller *v1beta1.Controller
	// Pods are the NodeSet's own, in any order.
	Pods []corev1.Pod
	// Orphans are pods with the NodeSet's labels that nobody controls.
	Orphans []corev1.Pod
	// Claims are the NodeSet's PersistentVolumeClaims, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Revisions are the NodeSet's own, in any order.
	Revisions []appsv1.ControllerRevision
	// Nodes are the Kubernetes nodes by name: all of them in DaemonSet mode, else at
	// least those that pods are on or are pinned to.
	Nodes map[string]*corev1.Node
	// NodeConditions are the types of Kubernetes node conditions that explain a cordon.
	NodeConditions []string
	// NotBefore is when a slot is served again after something failed there.
	NotBefore map[string]time.Time
	Slurm     SlurmFacts
	Now       time.Time
	// SssdHash is the Checksum of what spec.ssh.sssdConfRef selects; "" where it doesn't exist or ssh is off.
	SssdHash string
	// SssdUnread tells that it isn't known, so that it is neither missing nor another one than before.
	SssdUnread bool

	// Image is slurmd's where the NodeSet names none.
	Image string
	// ClusterDomain is Kubernetes' DNS domain, as cluster.local.
	ClusterDomain string
}

// SlurmFacts is what Slurm says about its nodes.
type SlurmFacts struct {
	// Known tells whether Nodes is a complete answer that is recent enough to act on.
	Known bool
	// Why there is no answer.
	Why   string
	Nodes map[string]slurm.Node
	// Deadlines are when the last of a node's running jobs must have ended. Nodes without
	// running jobs have none.
	Deadlines map[string]time.Time
	// ReservationKnown tells whether Reservation is an answer; it is nil where Slurm has none.
	ReservationKnown bool
	Reservation      *slurm.Reservation
}

// busy tells whether jobs use the node, or may: an unknown node does.
func (s SlurmFacts) busy(name string) bool {
	if !s.Known {
		return true
	}
	return workernode.Busy(s.Nodes[name])
}

// drained tells whether no job uses the node, and none will come.
func (s SlurmFacts) drained(name string) bool {
	if !s.Known {
		return false
	}
	n, registered := s.Nodes[name]
	if !registered {
		return true
	}
	return workernode.Draining(n) && !s.busy(name)
}
