package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Role is what a node is in the two worlds.
type Role string

// Roles of nodes.
const (
	// RoleWorker: its slurmd runs in a pod of a NodeSet.
	RoleWorker Role = "worker"
	// RoleExternal: a Kubernetes node that Slurm gives to pods.
	RoleExternal Role = "external"
	// RoleSlurm: a node of Slurm that no Kubernetes node is known for.
	RoleSlurm Role = "slurm"
	// RoleKubernetes: a Kubernetes node that Slurm doesn't have.
	RoleKubernetes Role = "kubernetes"
)

// Health sorts nodes by what a person would do about them.
type Health string

// Healths of nodes.
const (
	HealthUp      Health = "up"
	HealthDrained Health = "drained"
	HealthDown    Health = "down"
	HealthUnknown Health = "unknown"
)

// Cause is who keeps work away from a node, and why.
type Cause struct {
	// World is "Slurm" or "Kubernetes".
	World string `json:"world"`
	// What is "drained", "down", "cordoned", "not ready" or the like.
	What string `json:"what"`
	// By is a user of Slurm, who called "slinky drain", "bridge" or "operator"; "" where that isn't known.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Undrain is set of what "slinky undrain" lifts.
	Undrain bool `json:"undrain,omitempty"`
}

func (c Cause) String() string {
	s := c.What + " in " + c.World
	if c.By != "" {
		s += " by " + c.By
	}
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	return s
}

// Occupant is a job, or a pod of a job, on a node.
type Occupant struct {
	Job uint32 `json:"job,omitempty"`
	// Name is the job's, or "namespace/name" of the pod.
	Name string `json:"name"`
	Pod  bool   `json:"pod,omitempty"`
	User string `json:"user,omitempty"`
	// Cores are Slurm's abstract core numbers, as "0-3,8"; "" where they aren't known.
	Cores string `json:"cores,omitempty"`
	// GRES are its devices there, as "gpu:2(IDX:0-1)".
	GRES  string `json:"gres,omitempty"`
	Ready bool   `json:"-"`
}

// Node is a node of either world, or of both.
type Node struct {
	// Name is Slurm's if it has one.
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Kubernetes is the Kubernetes node, Slurm the Slurm node, Worker the pod of its slurmd.
	Kubernetes string `json:"kubernetes,omitempty"`
	Slurm      string `json:"slurm,omitempty"`
	Worker     string `json:"worker,omitempty"`

	Health Health `json:"health"`
	// State is Slurm's words, lower case; that of Kubernetes where Slurm has none.
	State  string  `json:"state"`
	Causes []Cause `json:"causes,omitempty"`

	Partitions []string `json:"partitions,omitempty"`
	// Topology is Slurm's, as "topo-switch:s2,topo-block:b2".
	Topology       string     `json:"topology,omitempty"`
	Sockets        int        `json:"sockets,omitempty"`
	CoresPerSocket int        `json:"coresPerSocket,omitempty"`
	Threads        int        `json:"threads,omitempty"`
	Total          Amounts    `json:"total"`
	Used           Amounts    `json:"used"`
	Occupants      []Occupant `json:"occupants,omitempty"`
	// OtherPods are pods on the Kubernetes node that Slurm didn't place.
	OtherPods int `json:"otherPods,omitempty"`
}

// Nodes returns all nodes by name: one for each of Slurm, and one for each of Kubernetes
// that isn't one of Slurm's itself, be it that workers of Slurm run on it.
func (m *Model) Nodes() []Node {
	kube := map[string]*corev1.Node{}
	list := make([]*corev1.Node, 0, len(m.Kubernetes.Nodes))
	for i := range m.Kubernetes.Nodes {
		n := &m.Kubernetes.Nodes[i]
		kube[n.Name] = n
		list = append(list, n)
	}
	names := placement.Names(list)
	var out []Node
	seen := map[string]bool{}
	for i := range m.Slurm.Nodes {
		n := m.slurmNode(&m.Slurm.Nodes[i], names, kube)
		if n.Role != RoleWorker {
			seen[n.Kubernetes] = true
		}
		out = append(out, n)
	}
	for _, n := range list {
		if !seen[n.Name] {
			out = append(out, m.kubernetesNode(n))
		}
	}
	slices.SortStableFunc(out, func(a, b Node) int {
		return cmp.Or(workload.CompareNatural(a.Name, b.Name), cmp.Compare(a.Role, b.Role))
	})
	return out
}

// stateText is a node's state as sinfo words it: what it is, and then what else is so.
func stateText(s slurm.States) string {
	words := slices.Clone(s)
	base := []string{slurm.NodeIdle, slurm.NodeMixed, slurm.NodeAllocated, slurm.NodeDown, slurm.NodeError, slurm.NodeFuture, slurm.NodeUnknown}
	slices.SortStableFunc(words, func(a, b string) int {
		return cmp.Compare(slices.Index(base, b), slices.Index(base, a))
	})
	return strings.ToLower(strings.Join(words, "+"))
}

// ShortState is State without what a node is for ever: its role says that.
func (n Node) ShortState() string {
	words := slices.DeleteFunc(strings.Split(n.State, "+"), func(w string) bool {
		return w == strings.ToLower(slurm.NodeDynamicNorm) || w == strings.ToLower(slurm.NodeExternal)
	})
	return strings.Join(words, "+")
}

func (m *Model) slurmNode(s *slurm.Node, names map[string]string, kube map[string]*corev1.Node) Node {
	n := Node{
		Name: s.Name, Slurm: s.Name, Role: RoleSlurm, State: stateText(s.States), Partitions: s.Partitions, Topology: s.Topology,
		Sockets: s.Sockets, CoresPerSocket: s.Cores, Threads: s.Threads, Health: slurmHealth(s),
		Total: Amounts{CPUs: uint64(max(cmp.Or(s.EffectiveCPUs, s.CPUs), 0)), Memory: less(s.RealMemory, s.SpecializedMemory), GPUs: gpus(s.GRES)},
		Used:  Amounts{CPUs: uint64(max(s.AllocCPUs, 0)), Memory: s.AllocMemory, GPUs: gpus(s.GRESUsed)},
	}
	mark, worker := workernode.MarkOf(*s)
	switch {
	case worker:
		n.Role, n.Kubernetes = RoleWorker, mark.Node
		n.Worker = Text(mark.Namespace + "/" + mark.PodName)
	case s.States.Has(slurm.NodeExternal):
		n.Role, n.Kubernetes = RoleExternal, names[s.Name]
		if m := mirror.MarkOf(s); n.Kubernetes == "" && m != nil {
			n.Kubernetes = m.Node
		}
	default:
		n.Kubernetes = names[s.Name]
	}
	if c, ok := slurmCause(s); ok {
		n.Causes = append(n.Causes, c)
	}
	k := kube[n.Kubernetes]
	switch {
	case k != nil:
		n.addKubernetes(k)
	case n.Kubernetes != "" && m.Kubernetes.has(PartNodes) && len(kube) > 0:
		n.Causes = append(n.Causes, Cause{World: "Kubernetes", What: "gone"})
	}
	if !m.Slurm.Known {
		n.Health = HealthUnknown
	}
	n.Occupants = m.occupants(s.Name)
	if n.Role != RoleWorker { // the node under it has a line of its own
		n.OtherPods = m.others(n.Kubernetes)
	}
	return n
}

func slurmHealth(s *slurm.Node) Health {
	switch {
	case s.States.HasAny(slurm.NodeDown, slurm.NodeFail, slurm.NodeNotResponding, slurm.NodeError, slurm.NodeInvalidReg, slurm.NodeFuture, slurm.NodeUnknown):
		return HealthDown
	case s.States.Has(slurm.NodeDrain):
		return HealthDrained
	}
	return HealthUp
}

// Author is whose a reason of a Slurm node is: "operator", "bridge", who called "slinky drain", or a user of Slurm.
func Author(s *slurm.Node) (by, reason string) {
	if text, ok := strings.CutPrefix(s.Reason, v1beta1.BridgeReasonPrefix); ok {
		return "bridge", text
	}
	if text, ok := strings.CutPrefix(s.Reason, v1beta1.OperatorReasonPrefix); ok {
		return "operator", text
	}
	if text, ok := strings.CutPrefix(s.Reason, v1beta1.DrainReasonPrefix); ok {
		if at := strings.LastIndex(text, " ("); at >= 0 && strings.HasSuffix(text, ")") {
			return text[at+2 : len(text)-1], text[:at]
		}
		return s.ReasonUser, text
	}
	return s.ReasonUser, s.Reason
}

func slurmCause(s *slurm.Node) (Cause, bool) {
	c := Cause{World: "Slurm", Since: s.ReasonTime}
	switch {
	case s.States.HasAny(slurm.NodeDown, slurm.NodeError):
		c.What = "down"
	case s.States.HasAny(slurm.NodeFail):
		c.What = "failing"
	case s.States.Has(slurm.NodeNotResponding):
		c.What = "not responding"
	case s.States.Has(slurm.NodeInvalidReg):
		c.What = "refused at its registration"
	case s.States.Has(slurm.NodeDrain) && s.AllocCPUs > 0:
		c.What = "draining"
	case s.States.Has(slurm.NodeDrain):
		c.What = "drained"
	default:
		return c, false
	}
	c.By, c.Reason = Author(s)
	c.Undrain = s.States.Has(slurm.NodeDrain) && strings.HasPrefix(s.Reason, v1beta1.DrainReasonPrefix)
	return c, true
}

func (n *Node) addKubernetes(k *corev1.Node) {
	for _, c := range k.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			n.Causes = append(n.Causes, Cause{World: "Kubernetes", What: "not ready", Reason: c.Message, Since: c.LastTransitionTime.Time})
			if n.Health != HealthDown {
				n.Health = HealthDown
			}
		}
	}
	if k.Spec.Unschedulable {
		c := Cause{World: "Kubernetes", What: "cordoned", By: k.Annotations[v1beta1.AnnotationDrainedBy], Reason: k.Annotations[v1beta1.AnnotationNodeCordonReason]}
		c.Undrain = c.By != ""
		for _, t := range k.Spec.Taints {
			if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
				c.Since = t.TimeAdded.Time
			}
		}
		n.Causes = append(n.Causes, c)
		if n.Health == HealthUp {
			n.Health = HealthDrained
		}
	}
}

func (m *Model) kubernetesNode(k *corev1.Node) Node {
	n := Node{Name: k.Name, Kubernetes: k.Name, Role: RoleKubernetes, Health: HealthUp, State: "ready", Topology: k.Annotations[v1beta1.AnnotationTopology]}
	n.addKubernetes(k)
	switch {
	case n.Health == HealthDown:
		n.State = "not ready"
	case n.Health == HealthDrained:
		n.State = "cordoned"
	}
	if !m.Kubernetes.Known {
		n.Health = HealthUnknown
	}
	cpu, memory := k.Status.Allocatable[corev1.ResourceCPU], k.Status.Allocatable[corev1.ResourceMemory]
	gpu := k.Status.Allocatable["nvidia.com/gpu"]
	n.Total = Amounts{CPUs: uint64(max(0, cpu.Value())), Memory: uint64(max(0, memory.Value()>>20)), GPUs: uint64(max(0, gpu.Value()))}
	n.Used = podAmounts(m.placed[k.Name]...)
	n.OtherPods = m.others(k.Name)
	return n
}

// others counts the pods on a Kubernetes node that aren't of a job.
func (m *Model) others(node string) int {
	n := 0
	for _, pod := range m.placed[node] {
		if m.jobOf[string(pod.UID)] == nil {
			n++
		}
	}
	return n
}

// Shape is the node's cores for people, as "2 x 16 cores x 2 threads".
func (n Node) Shape() string {
	if n.Sockets == 0 || n.CoresPerSocket == 0 {
		return ""
	}
	s := fmt.Sprintf("%d x %d cores", n.Sockets, n.CoresPerSocket)
	if n.Threads > 1 {
		s += fmt.Sprintf(" x %d threads", n.Threads)
	}
	return s
}
