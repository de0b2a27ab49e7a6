package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm/tres"
)

// NodeAnswer explains how a node stands.
type NodeAnswer struct {
	Node
	Summary string   `json:"summary"`
	Do      []string `json:"do,omitempty"`
}

// WhyNode explains why a node takes work or doesn't, and who can change that.
func (m *Model) WhyNode(n Node) NodeAnswer {
	a := NodeAnswer{Node: n}
	switch {
	case n.Health == HealthUnknown && n.Slurm != "":
		a.Summary = fmt.Sprintf("How node %s stands isn't known, as Slurm can't be asked: %s.", n.Name, m.Slurm.Error)
	case len(n.Causes) > 0:
		var texts []string
		for _, c := range n.Causes {
			texts = append(texts, c.String())
		}
		a.Summary = fmt.Sprintf("Node %s takes no new work: it is %s.", n.Name, strings.Join(texts, "; and it is "))
	case n.Role == RoleKubernetes && !m.Slurm.Known && !m.Slurm.Absent:
		a.Summary = fmt.Sprintf("Node %s is ready in Kubernetes. What Slurm makes of it isn't known: %s.", n.Name, m.Slurm.Error)
	case n.Role == RoleKubernetes:
		a.Summary = fmt.Sprintf("Node %s is Kubernetes' alone: Slurm gives it no pods.", n.Name)
	case n.Health != HealthUp:
		a.Summary = fmt.Sprintf("Node %s takes no new work: Slurm's state is %s.", n.Name, n.State)
	case n.Used.CPUs >= n.Total.CPUs && n.Total.CPUs > 0:
		a.Summary = fmt.Sprintf("Node %s is in service, and all of its CPUs are given.", n.Name)
	default:
		a.Summary = fmt.Sprintf("Node %s is in service: %d of %d CPUs are free.", n.Name, less(n.Total.CPUs, n.Used.CPUs), n.Total.CPUs)
	}
	for _, c := range n.Causes {
		if do := n.cure(c); !slices.Contains(a.Do, do) {
			a.Do = append(a.Do, do)
		}
	}
	return a
}

// cordoned tells whether the Kubernetes node was drained with the Slurm node.
func cordoned(n Node) bool {
	return slices.ContainsFunc(n.Causes, func(c Cause) bool { return c.World == "Kubernetes" && c.Undrain })
}

// cure is what to do about a cause.
func (n Node) cure(c Cause) string {
	switch {
	case c.World == "Kubernetes" && c.Undrain:
		return "lift it with: slinky undrain " + n.Kubernetes
	case c.World == "Kubernetes" && c.What == "cordoned":
		return "somebody cordoned it; lift it with: kubectl uncordon " + n.Kubernetes
	case c.World == "Kubernetes" && c.What == "gone":
		return "Kubernetes has no such node any more; the bridge or the operator removes it from Slurm once no job runs on it"
	case c.World == "Kubernetes":
		return "see its kubelet: kubectl describe node " + n.Kubernetes
	case c.By == "bridge":
		return "nothing in Slurm: the bridge lifts its drain when the cause in Kubernetes is gone"
	case c.By == "operator" && c.What == "down":
		return "nothing in Slurm: its worker's pod ended, and the operator resumes it with the next one"
	case c.By == "operator":
		return "nothing in Slurm: the operator lifts its drain when the cause in Kubernetes is gone"
	case c.Undrain && cordoned(n):
		return "lift it with: slinky undrain " + n.Kubernetes
	case c.Undrain:
		return "lift it with: slinky undrain " + n.Name
	case strings.HasPrefix(c.What, "drain"):
		return fmt.Sprintf("ask %s, who drained it; to lift it in their place: scontrol update nodename=%s state=undrain", who(c.By), n.Slurm)
	case n.Role == RoleWorker:
		return "see its slurmd: kubectl logs -n " + strings.Replace(n.Worker, "/", " ", 1) + " -c slurmd"
	}
	return fmt.Sprintf("see its slurmd, then: scontrol update nodename=%s state=resume", n.Slurm)
}

func who(by string) string {
	if by == "" {
		return "whoever"
	}
	return by
}

// CoreMap tells for each core of a node, by Slurm's abstract number, which of its occupants
// has it: an index into Occupants, or -1. It is nil where the cores of a node aren't known,
// and complete is false where those of some occupant aren't.
func (n Node) CoreMap() (cores []int, complete bool) {
	total := n.Sockets * n.CoresPerSocket
	if total <= 0 || total > mostCores {
		return nil, false
	}
	cores = make([]int, total)
	for i := range cores {
		cores[i] = -1
	}
	complete = true
	for at, o := range n.Occupants {
		list, err := tres.ParseIndexes(o.Cores)
		if err != nil || len(list) == 0 {
			complete = false
			continue
		}
		for _, c := range list {
			if c >= 0 && c < total {
				cores[c] = at
			}
		}
	}
	return cores, complete
}

// mostCores bounds what is drawn: no machine has as many, and a file may say anything.
const mostCores = 1 << 14
