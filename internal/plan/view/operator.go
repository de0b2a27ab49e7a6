package view

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// Operator is what the operator's planner of NodeSets goes by. Secrets in it are redacted. Its
// texts are else as they were read, as planners compare them; what planners say of them is cleaned.
type Operator struct {
	NodeSets    []v1beta1.NodeSet              `json:",omitempty"`
	Controllers []v1beta1.Controller           `json:",omitempty"`
	Revisions   []appsv1.ControllerRevision    `json:",omitempty"`
	Claims      []metav1.PartialObjectMetadata `json:",omitempty"`
	// Cluster is the Controller, as namespace/name, whose Slurm the facts are of; "" where that isn't known.
	Cluster string `json:",omitempty"`
	// NodeConditions are the types of conditions of Kubernetes nodes that explain a cordon.
	NodeConditions []string `json:",omitempty"`
	// Sssd stands for the sssd.conf of NodeSets, as their pods say it, by namespace/name; "" for
	// one that doesn't exist, none for one that couldn't be read.
	Sssd map[string]string `json:",omitempty"`
	// Reservations are those of NodeSets in Slurm, by name; nil for one that doesn't exist, none for one that couldn't be read.
	Reservations map[string]*slurm.Reservation `json:",omitempty"`
}

// nodeSetPlans runs the operator's planner on each NodeSet.
func (m *Model) nodeSetPlans() []Planned {
	if m.Operator == nil {
		why := m.Unread.why(PartNodeSetSpecs, "")
		switch {
		case m.silent():
			why = "Kubernetes couldn't be asked: " + m.Kubernetes.Error
		case why != "":
		case len(m.Kubernetes.NodeSets) == 0:
			return nil
		default:
			why = olderFile
		}
		return []Planned{{Planner: PlannerNodeSets, About: "all NodeSets", Unplanned: lacking(PartNodeSetSpecs, why)}}
	}
	var out []Planned
	for i := range m.Operator.NodeSets {
		n := &m.Operator.NodeSets[i]
		p := Planned{Planner: PlannerNodeSets, About: "NodeSet " + n.Namespace + "/" + n.Name}
		facts, why := m.NodeSetFacts(n)
		if p.Unplanned = why; why == "" {
			p.Steps = nodeSetSteps(nodeset.Make(facts))
			if facts.SssdUnread {
				p.Steps = append(p.Steps, Step{Do: "note", Why: "its sssd.conf is taken for unchanged, as " + lacking(PartSssd, m.Unread.why(PartSssd, n.Namespace))})
			}
		}
		if p.Unplanned != "" || len(p.Steps) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// NodeSetFacts returns what the operator's planner goes by, or why it can't be told.
func (m *Model) NodeSetFacts(n *v1beta1.NodeSet) (nodeset.Facts, string) {
	o := m.Operator
	f := nodeset.Facts{NodeSet: n, Now: m.Taken, NodeConditions: o.NodeConditions}
	key := n.Namespace + "/" + n.Name
	for i := range o.Controllers {
		if c := &o.Controllers[i]; c.Namespace == n.Namespace && c.Name == n.Spec.ControllerRef.Name {
			f.Controller = c
		}
	}
	if why := m.lacksOf(n, f.Controller); why != "" {
		return f, why
	}
	f.Pods, f.Orphans = nodeset.Members(n, m.Kubernetes.Pods)
	f.Revisions = nodeset.RevisionsOf(n, o.Revisions)
	f.Nodes = make(map[string]*corev1.Node, len(m.Kubernetes.Nodes))
	for i := range m.Kubernetes.Nodes {
		f.Nodes[m.Kubernetes.Nodes[i].Name] = &m.Kubernetes.Nodes[i]
	}
	if len(n.Spec.VolumeClaimTemplates) > 0 {
		f.Claims = nodeset.ClaimsOf(n, o.Claims)
	}
	var known bool
	if f.SssdHash, known = o.Sssd[key]; !known {
		f.SssdUnread = nodeset.SssdConf(n) != nil
	}
	f.Slurm = nodeset.SlurmFacts{Known: true, Nodes: map[string]slurm.Node{}}
	for i := range m.Slurm.Nodes {
		f.Slurm.Nodes[m.Slurm.Nodes[i].Name] = m.Slurm.Nodes[i]
	}
	f.Slurm.Deadlines = nodeset.Deadlines(f.Pods, f.Slurm.Nodes, m.jobsOn)
	if nodeset.NeedsReservation(n) {
		f.Slurm.Reservation, f.Slurm.ReservationKnown = o.Reservations[nodeset.ReservationName(n)], true
	}
	return f, ""
}

// lacksOf is what isn't known of a NodeSet without which its planner would do what the operator doesn't.
func (m *Model) lacksOf(n *v1beta1.NodeSet, c *v1beta1.Controller) string {
	for _, what := range []string{PartPods, PartNodes} {
		if why := m.Kubernetes.why(what); why != "" {
			return lacking(what, why)
		}
	}
	if m.Kubernetes.Namespace != "" && m.Kubernetes.Namespace != n.Namespace {
		return lacking(PartPods, fmt.Sprintf("it has only those of namespace %s", m.Kubernetes.Namespace))
	}
	parts := []string{PartRevisions}
	if len(n.Spec.VolumeClaimTemplates) > 0 {
		parts = append(parts, PartClaims)
	}
	if nodeset.NeedsReservation(n) {
		parts = append(parts, PartReservations)
	}
	for _, what := range parts {
		if why := m.Unread.why(what, n.Namespace); why != "" {
			return lacking(what, why)
		}
	}
	if c == nil {
		return fmt.Sprintf("there is no Controller %q in namespace %s", n.Spec.ControllerRef.Name, n.Namespace)
	}
	cluster := c.Namespace + "/" + c.Name
	switch of := m.clusterOfSlurm(); {
	case !m.Slurm.Known:
		return "Slurm couldn't be asked: " + m.Slurm.Error
	case of == "":
		return fmt.Sprintf("it isn't known whether the Slurm in the file is that of Controller %s, as no RestApi and no worker tells", cluster)
	case of != cluster:
		return fmt.Sprintf("the Slurm in the file is that of Controller %s, not of %s", of, cluster)
	}
	return ""
}

// clusterOfSlurm is the Controller of the Slurm in the facts, by its address or by what the workers there say of themselves.
func (m *Model) clusterOfSlurm() string {
	o := m.Operator
	if o.Cluster != "" {
		return o.Cluster
	}
	for i := range m.Slurm.Nodes {
		mark, worker := workernode.MarkOf(m.Slurm.Nodes[i])
		if !worker || mark.NodeSetUID == "" {
			continue
		}
		for j := range o.NodeSets {
			if n := &o.NodeSets[j]; string(n.UID) == mark.NodeSetUID {
				return n.Namespace + "/" + n.Spec.ControllerRef.Name
			}
		}
	}
	return ""
}

// jobsOn returns the jobs that hold a Slurm node.
func (m *Model) jobsOn(node string) []slurm.Job {
	out := make([]slurm.Job, 0, len(m.on[node]))
	for _, j := range m.on[node] {
		out = append(out, *j)
	}
	return out
}

// nodeSetSteps are a plan of the operator in words.
func nodeSetSteps(p nodeset.Plan) []Step {
	var out []Step
	for _, s := range p.Steps {
		kind, name := s.Object()
		do := string(s.Action)
		if word, last, two := strings.Cut(do, " "); two && last == kind {
			do = word // "create revision" of a revision
		}
		on := kind + " " + name
		if s.Action == nodeset.CreateRevision {
			on = "a new revision" // its name is made of what is redacted here
		}
		out = append(out, Step{Do: do, On: on, Why: s.Reason})
	}
	for _, problem := range p.Problems {
		out = append(out, Step{Do: "report " + problem.Reason, Why: problem.Message})
	}
	return out
}
