// Package view puts what Kubernetes and Slurm say at one moment into one picture, for
// people: the cluster at a glance, one queue, the nodes with who runs where. It is pure,
// so that the same picture comes from a live cluster and from a file.
package view

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

// Facts are all that a picture is made of. They hold no secret, and no text that could
// steer a terminal, once they went through Clean.
type Facts struct {
	// Taken is the moment that the picture is of.
	Taken time.Time
	// SchedulerName is the bridge's.
	SchedulerName string
	Kubernetes    Kubernetes
	Slurm         Slurm
	// Bridge is nil where none is installed, or its settings may not be read; Operator where it
	// has no NodeSets, or they may not be read. Only planners go by them.
	Bridge   *Bridge   `json:",omitempty"`
	Operator *Operator `json:",omitempty"`
	// Unread are the parts that only planners need and that couldn't be read.
	Unread Parts `json:",omitempty"`
}

// Parts are parts that couldn't be read.
type Parts []Part

// why is why a part isn't known of a namespace, "" for all of them; "" where it is known.
func (list Parts) why(what, namespace string) string {
	for _, p := range list {
		if p.What == what && (p.In == "" || p.In == namespace) && (p.Only == "" || p.Only != namespace) {
			return p.Error
		}
	}
	return ""
}

// Source tells how much one world's facts are worth.
type Source struct {
	// Known is false where nothing was ever read, or is so old that it isn't to be shown as true.
	Known bool
	// Error is why the world couldn't be asked, or not wholly; "" if all is well.
	Error string `json:",omitempty"`
	// Read is when what is there was read, zero for never.
	Read time.Time `json:",omitzero"`
	// Missing are the parts that couldn't be read, or not lately, while others were.
	Missing []Part `json:",omitempty"`
}

// Part is a part of a world of which nothing is shown, as it isn't known to be true.
type Part struct {
	// What is one of the parts below.
	What string `json:"what"`
	// Error is why it couldn't be read; of a missing right, which one that is.
	Error string `json:"error,omitempty"`
	// Forbidden is set where the reader lacks a right: nothing is broken then.
	Forbidden bool `json:"forbidden,omitempty"`
	// In is the one namespace of which it couldn't be read, and Only the one of which it could; "" for none.
	In   string `json:"in,omitempty"`
	Only string `json:"only,omitempty"`
	// Read is when it was last read, zero for never.
	Read time.Time `json:"read,omitzero"`
}

// Parts of the two worlds, as people call them.
const (
	PartPods        = "pods"
	PartNodes       = "nodes"
	PartControllers = "Controllers"
	PartNodeSets    = "NodeSets"
	PartPartitions  = "partitions"
	PartPings       = "answers of slurmctld"
)

// Parts that only planners need.
const (
	PartBridge       = "settings of the bridge"
	PartCluster      = "identity of the Kubernetes cluster"
	PartSlices       = "ResourceSlices"
	PartRules        = "rules of namespaces"
	PartPodGroups    = "PodGroups"
	PartWorkloads    = "Workloads"
	PartCoscheduling = "PodGroups of scheduling.x-k8s.io"
	PartSets         = "LeaderWorkerSets"
	PartNodeSetSpecs = "specs of NodeSets"
	PartRevisions    = "ControllerRevisions"
	PartClaims       = "PersistentVolumeClaims of NodeSets"
	PartReservations = "reservations"
	PartSssd         = "sssd.conf of NodeSets"
	PartOperator     = "settings of the operator"
)

// lacking is why there is no plan without a part.
func lacking(what, why string) string { return fmt.Sprintf("the file lacks %s: %s", what, why) }

// PartOwners are the owners of pods that are of one kind.
func PartOwners(kind string) string { return kind + "s that own pods" }

// Lacks tells whether a part is missing.
func (s Source) Lacks(what string) bool {
	return slices.ContainsFunc(s.Missing, func(p Part) bool { return p.What == what })
}

// why is why a part is missing.
func (s Source) why(what string) string {
	for _, p := range s.Missing {
		if p.What == what {
			return p.Error
		}
	}
	return ""
}

// has tells whether a part is known.
func (s Source) has(what string) bool { return s.Known && !s.Lacks(what) }

// Kubernetes is what the API server says.
type Kubernetes struct {
	Source
	// Absent is set where no Kubernetes cluster was named at all.
	Absent  bool   `json:",omitempty"`
	Version string `json:",omitempty"`
	// Namespace is the one that the pods are from; "" for all.
	Namespace string `json:",omitempty"`
	// Hidden are sentences on what the reader may not see, with the right that it takes.
	Hidden      []string      `json:",omitempty"`
	Nodes       []corev1.Node `json:",omitempty"`
	Pods        []corev1.Pod  `json:",omitempty"`
	Controllers []Controller  `json:",omitempty"`
	NodeSets    []NodeSet     `json:",omitempty"`
}

// Controller is a Slurm cluster that the operator runs.
type Controller struct {
	Namespace, Name string
	Conditions      []metav1.Condition `json:",omitempty"`
}

// NodeSet is a set of workers that the operator runs.
type NodeSet struct {
	Namespace, Name, Controller      string
	Desired, Ready, Idle, Busy, Down int32
	Drained                          int32
	Conditions                       []metav1.Condition `json:",omitempty"`
}

// Slurm is what slurmctld says.
type Slurm struct {
	Source
	// Absent is set where no Slurm is meant to be there: neither a bridge nor an operator's cluster.
	Absent bool `json:",omitempty"`
	// URL is where slurmrestd was asked.
	URL         string            `json:",omitempty"`
	Controllers []slurm.Ping      `json:",omitempty"`
	Jobs        []slurm.Job       `json:",omitempty"`
	Nodes       []slurm.Node      `json:",omitempty"`
	Partitions  []slurm.Partition `json:",omitempty"`
	// Allocations are of running jobs; those of some may be missing.
	Allocations []slurm.Allocation `json:",omitempty"`
	// Associations and QOS explain limits; they are empty where there is no accounting.
	Associations []slurm.Association `json:",omitempty"`
	QOS          []slurm.QOS         `json:",omitempty"`
}

// NotInFile are sentences on what a file of these facts lacks, and for which right.
func (f Facts) NotInFile() []string {
	var out []string
	for _, p := range slices.Concat(f.Kubernetes.Missing, f.Slurm.Missing, f.Unread) {
		where := ""
		switch {
		case p.In != "":
			where = " of namespace " + p.In
		case p.Only != "":
			where = " of other namespaces than " + p.Only
		}
		if text := fmt.Sprintf("The file lacks %s%s: %s", p.What, where, p.Error); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
