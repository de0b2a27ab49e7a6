package view

import (
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
}

// Planned is what a planner would do about one thing, and why.
type Planned struct {
	// About is "node w-3" or a line of the queue.
	About string   `json:"about"`
	Steps []string `json:"steps"`
}

// Plans runs the planners on the facts: what the bridge would change about each node, and
// for each line of the queue that waits, why, and what would help.
func (m *Model) Plans() []Planned {
	var out []Planned
	if m.Bridge != nil && m.Slurm.Known && m.Kubernetes.has(PartNodes) {
		out = m.mirrorPlans()
	}
	for _, i := range m.Queue(false) {
		if i.State != StateWaiting && i.State != StateNeedsAction {
			continue
		}
		found, err := m.Find("", i.Target())
		if err != nil {
			continue
		}
		answer := explain.Why(found.Facts)
		Clean(&answer)
		p := Planned{About: fmt.Sprintf("%s %s", i.Kind, i.Name), Steps: []string{answer.Summary}}
		for _, do := range answer.Do {
			if do != "" {
				p.Steps = append(p.Steps, "to do: "+do)
			}
		}
		out = append(out, p)
	}
	return out
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
	published := m.published()
	var out []Planned
	for _, name := range slices.Compact(names) {
		f := mirror.Facts{Kube: kube[name], Slurm: inSlurm[name], NamedBy: m.namedBy(name), Now: m.Taken, Policy: m.Bridge.Policy}
		if f.Kube != nil {
			f.Devices = device.Of(f.Kube, published[f.Kube.Name], m.Bridge.Drivers)
		}
		if steps := mirrorSteps(mirror.Make(f)); len(steps) > 0 {
			Clean(&steps)
			out = append(out, Planned{About: "node " + name, Steps: steps})
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

// namedBy is a job that waits for a node by its name, 0 for none.
func (m *Model) namedBy(node string) uint32 {
	for i := range m.Slurm.Jobs {
		j := &m.Slurm.Jobs[i]
		if over(*j) || j.Asked.RequiredNodes == "" {
			continue
		}
		if names, err := hostlist.Expand(j.Asked.RequiredNodes); err == nil && slices.Contains(names, node) {
			return j.ID
		}
	}
	return 0
}

// mirrorSteps are a plan of the bridge about a node in words.
func mirrorSteps(p mirror.Plan) []string {
	var out []string
	if u := p.Update; u != nil {
		switch {
		case u.State != "":
			out = append(out, fmt.Sprintf("change it in Slurm: state %s, reason %q", u.State, u.Reason))
		default:
			out = append(out, "bring what Slurm knows of it up to date")
		}
	}
	switch {
	case p.Delete && p.Create != nil:
		out = append(out, "register it anew in Slurm: "+p.Anew)
	case p.Delete:
		out = append(out, "remove it from Slurm")
	case p.Create != nil:
		out = append(out, fmt.Sprintf("register it in Slurm, with %d CPUs, %d MiB and GRES %q", p.Create.CPUs, p.Create.RealMemory, p.Create.GRES))
	}
	if p.SetTaints {
		out = append(out, "change its taints in Kubernetes")
	}
	if p.Condition != nil {
		out = append(out, fmt.Sprintf("say on it in Kubernetes that %s", p.Condition.Message))
	}
	return append(out, p.Notes...)
}
