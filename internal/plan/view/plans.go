package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// Bridge is what the installed bridge goes by.
type Bridge struct {
	Policy  mirror.Policy
	Drivers device.Drivers `json:",omitempty"`
	// Slices are the devices that drivers publish.
	Slices []resourcev1.ResourceSlice `json:",omitempty"`
	// Groups tell which pods start together; nil in a file of an older slinky.
	Groups *Groups `json:",omitempty"`
}

// Planned is what a planner would do about one thing, and why.
type Planned struct {
	// Planner is one of those below.
	Planner string `json:"planner"`
	// About is "node w-3", "NodeSet slurm/cpu", a workload or a line of the queue.
	About string `json:"about"`
	Steps []Step `json:"steps,omitempty"`
	// Unplanned is why there is no plan: a fact that the planner needs isn't there.
	Unplanned string `json:"unplanned,omitempty"`
}

// Step is one thing that a planner would do.
type Step struct {
	Do string `json:"do"`
	// On is what it would be done to, "" for what the plan is about.
	On string `json:"on,omitempty"`
	// Pods, as namespace/name, and Job are those that the bridge's step for pods is about, 0 for no job.
	Pods []string `json:"pods,omitempty"`
	Job  uint32   `json:"job,omitempty"`
	Why  string   `json:"why,omitempty"`
}

// The planners.
const (
	// PlannerNodes is the bridge's, which shows Kubernetes' nodes to Slurm.
	PlannerNodes = "nodes"
	// PlannerWorkloads is the bridge's, which asks Slurm for jobs for pods.
	PlannerWorkloads = "workloads"
	// PlannerNodeSets is the operator's, which keeps workers.
	PlannerNodeSets = "nodesets"
	// PlannerQueue explains what waits, and what a person can do.
	PlannerQueue = "queue"
)

// olderFile is why a file has not what a planner of today needs.
const olderFile = "an older slinky wrote it; take a new one with: slinky snapshot FILE"

// Plans runs the planners on the facts: what the bridge would change about each node and do for
// each workload, what the operator would do for each NodeSet, and for each line of the queue
// that waits, why, and what would help. A planner that lacks a fact says so.
func (m *Model) Plans() []Planned {
	workloads, told := m.workloadPlans()
	out := slices.Concat(m.nodePlans(), workloads, m.nodeSetPlans(), m.queuePlans(told))
	Clean(&out)
	return out
}

// queuePlans explain what waits. Of pods that a plan has told of, only what a person can do is left to say.
func (m *Model) queuePlans(told map[string]bool) []Planned {
	var out []Planned
	for _, i := range m.Queue(false) {
		if i.State != StateWaiting && i.State != StateNeedsAction {
			continue
		}
		found, err := m.Find("", i.Target())
		if err != nil {
			continue
		}
		answer := explain.Why(found.Facts)
		p := Planned{Planner: PlannerQueue, About: fmt.Sprintf("%s %s", i.Kind, i.Name)}
		if len(i.Pods) == 0 || slices.ContainsFunc(i.Pods, func(pod string) bool { return !told[pod] }) {
			p.Steps = append(p.Steps, Step{Do: "wait", Why: answer.Summary})
		}
		for _, do := range answer.Do {
			if do != "" {
				p.Steps = append(p.Steps, Step{Do: "advise", Why: do})
			}
		}
		if len(p.Steps) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// noBridge is why the bridge's planners can't run, "" if they can or there is no bridge.
func (m *Model) noBridge() string {
	if m.silent() {
		return "Kubernetes couldn't be asked: " + m.Kubernetes.Error
	}
	for _, what := range []string{PartBridge, PartCluster} {
		if why := m.Unread.why(what, ""); why != "" {
			return lacking(what, why)
		}
	}
	if m.Bridge == nil && slices.ContainsFunc(m.Kubernetes.Pods, func(p corev1.Pod) bool { return p.Spec.SchedulerName == m.SchedulerName }) {
		return lacking(PartBridge, "none is installed, or an older slinky wrote the file")
	}
	return ""
}

// silent tells whether a Kubernetes that is meant to be there gave no answer.
func (m *Model) silent() bool { return !m.Kubernetes.Known && !m.Kubernetes.Absent }

// nodePlans runs the planner that shows Kubernetes' nodes to Slurm.
func (m *Model) nodePlans() []Planned {
	why := m.noBridge()
	switch {
	case why != "":
	case m.Bridge == nil:
		return nil
	case !m.Slurm.Known:
		why = "Slurm couldn't be asked: " + m.Slurm.Error
	case !m.Kubernetes.has(PartNodes):
		why = lacking(PartNodes, cmp.Or(m.Kubernetes.why(PartNodes), m.Kubernetes.Error))
	default:
		if why = m.Unread.why(PartSlices, ""); why != "" {
			why = lacking(PartSlices, why)
			break
		}
		return m.mirrorPlans()
	}
	return []Planned{{Planner: PlannerNodes, About: "all nodes", Unplanned: why}}
}

func (m *Model) mirrorPlans() []Planned {
	kube, inSlurm := map[string]*corev1.Node{}, map[string]*slurm.Node{}
	for i := range m.Kubernetes.Nodes {
		n := &m.Kubernetes.Nodes[i]
		kube[placement.SlurmName(n)] = n
	}
	for i := range m.Slurm.Nodes {
		inSlurm[m.Slurm.Nodes[i].Name] = &m.Slurm.Nodes[i]
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(kube)), maps.Keys(inSlurm))
	slices.SortFunc(names, workload.CompareNatural)
	published, named := m.published(), m.namedBy()
	var out []Planned
	for _, name := range slices.Compact(names) {
		f := mirror.Facts{Kube: kube[name], Slurm: inSlurm[name], NamedBy: named[name], Now: m.Taken, Policy: m.Bridge.Policy}
		if f.Kube != nil {
			f.Devices = device.Of(f.Kube, published[f.Kube.Name], m.Bridge.Drivers)
		}
		if steps := mirrorSteps(mirror.Make(f)); len(steps) > 0 {
			out = append(out, Planned{Planner: PlannerNodes, About: "node " + name, Steps: steps})
		}
	}
	return out
}

func (m *Model) published() map[string][]*resourcev1.ResourceSlice {
	out := map[string][]*resourcev1.ResourceSlice{}
	for i := range m.Bridge.Slices {
		for _, node := range device.NodesOf(&m.Bridge.Slices[i]) {
			out[node] = append(out[node], &m.Bridge.Slices[i])
		}
	}
	return out
}

// namedBy are jobs that wait for nodes by their names, by node.
func (m *Model) namedBy() map[string]uint32 {
	out := map[string]uint32{}
	for i := range m.Slurm.Jobs {
		j := &m.Slurm.Jobs[i]
		if j.Asked.RequiredNodes == "" || over(*j) {
			continue
		}
		names, err := hostlist.Expand(j.Asked.RequiredNodes)
		if err != nil {
			continue
		}
		for _, name := range names {
			if out[name] == 0 {
				out[name] = j.ID
			}
		}
	}
	return out
}

// mirrorSteps are a plan of the bridge about a node in words.
func mirrorSteps(p mirror.Plan) []Step {
	var out []Step
	if u := p.Update; u != nil {
		switch {
		case u.State != "":
			out = append(out, Step{Do: "set state " + u.State + " in Slurm", Why: u.Reason})
		default:
			out = append(out, Step{Do: "update in Slurm", Why: "what Slurm knows of it is not what Kubernetes says"})
		}
	}
	switch {
	case p.Delete && p.Create != nil:
		out = append(out, Step{Do: "register anew in Slurm", Why: p.Anew})
	case p.Delete:
		out = append(out, Step{Do: "remove from Slurm", Why: "it is no node of the bridge any more"})
	case p.Create != nil:
		out = append(out, Step{Do: "register in Slurm", Why: fmt.Sprintf("Slurm doesn't have it; it has %d CPUs, %d MiB and GRES %q", p.Create.CPUs, p.Create.RealMemory, p.Create.GRES)})
	}
	if p.SetTaints {
		out = append(out, Step{Do: "change its taints in Kubernetes", Why: "the bridge's taint is there on its nodes alone"})
	}
	if p.Condition != nil {
		out = append(out, Step{Do: fmt.Sprintf("set condition %s=%s in Kubernetes", p.Condition.Type, p.Condition.Status), Why: p.Condition.Message})
	}
	for _, note := range p.Notes {
		out = append(out, Step{Do: "note", Why: note})
	}
	return out
}
