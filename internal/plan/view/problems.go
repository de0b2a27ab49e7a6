package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Problem is something that is wrong, and what to do about it.
type Problem struct {
	// Where is what it is about, as "node w-3" or "Slurm".
	Where string `json:"where"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
	// Hurts is set where work can't go on because of it.
	Hurts bool `json:"hurts,omitempty"`
}

// samples bounds how many nodes or lines a problem names.
const samples = 4

// problems finds what is wrong, the worst first.
func (m *Model) problems(nodes []Node, items []Item) []Problem {
	out := m.worldProblems()
	for _, p := range m.Slurm.Controllers {
		if !p.Responding {
			out = append(out, Problem{Where: "slurmctld on " + p.Hostname, What: cmp.Or(p.Status, "it doesn't respond") + " (" + p.Mode + ")", Hurts: p.Primary,
				Do: "see its log; with a backup Slurm goes on: scontrol ping"})
		}
	}
	out = append(out, m.objectProblems()...)
	out = append(out, nodeProblems(nodes)...)
	return append(out, queueProblems(items)...)
}

func (m *Model) worldProblems() []Problem {
	var out []Problem
	if k := m.Kubernetes; !k.Absent && (!k.Known || k.Error != "") {
		out = append(out, Problem{Where: "Kubernetes", Hurts: !k.Known, What: "it can't be asked: " + k.Error + age(k.Source, m),
			Do: "see whether the API server runs and your kubeconfig is right: kubectl get --raw /readyz"})
	}
	out = append(out, m.missing("Kubernetes", m.Kubernetes.Source, "see what the API server says itself: kubectl get --raw '/readyz?verbose'")...)
	if s := m.Slurm; !s.Absent && (!s.Known || s.Error != "") {
		out = append(out, Problem{Where: "Slurm", Hurts: !s.Known, What: "it can't be asked: " + s.Error + age(s.Source, m),
			Do: "see whether slurmrestd and slurmctld run: kubectl get pods -A -l 'app.kubernetes.io/name in (slurmrestd,slurmctld)'"})
	}
	return append(out, m.missing("Slurm", m.Slurm.Source, "see the logs of slurmrestd and slurmctld")...)
}

// missing are the parts of a world that can't be read, where the rest of it can.
func (m *Model) missing(where string, s Source, do string) []Problem {
	var out []Problem
	for _, p := range s.Missing {
		if !s.Known || p.Forbidden {
			continue
		}
		what := fmt.Sprintf("its %s can't be read, so they are not shown: %s", p.What, p.Error)
		if !p.Read.IsZero() {
			what += "; they were last read " + Age(p.Read, m.Taken)
		}
		out = append(out, Problem{Where: where, What: what, Do: do, Hurts: true})
	}
	return out
}

// age says of a world that doesn't answer when it last did.
func age(s Source, m *Model) string {
	if s.Read.IsZero() {
		return ""
	}
	return "; it last answered " + Age(s.Read, m.Taken)
}

func metaCondition(list []metav1.Condition, kind string) *metav1.Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

func (m *Model) objectProblems() []Problem {
	var out []Problem
	add := func(kind, resource, namespace, name string, list []metav1.Condition) {
		for _, c := range list {
			bad := c.Type == v1beta1.ConditionDegraded && c.Status == metav1.ConditionTrue || c.Type == v1beta1.ConditionReady && c.Status == metav1.ConditionFalse
			if bad {
				out = append(out, Problem{Where: kind + " " + namespace + "/" + name, What: c.Message, Do: fmt.Sprintf("kubectl describe %s -n %s %s", resource, namespace, name)})
				return
			}
		}
	}
	for _, c := range m.Kubernetes.Controllers {
		add("Controller", "controllers.slinky.slurm.net", c.Namespace, c.Name, c.Conditions)
	}
	for _, n := range m.Kubernetes.NodeSets {
		add("NodeSet", "nodesets.slinky.slurm.net", n.Namespace, n.Name, n.Conditions)
	}
	// The parts themselves: the daemons of Slurm, the operator and the bridge.
	for i := range m.Kubernetes.Pods {
		pod := &m.Kubernetes.Pods[i]
		if why := daemonTrouble(pod); why != "" {
			out = append(out, Problem{Where: "pod " + pod.Namespace + "/" + pod.Name, What: why, Do: fmt.Sprintf("kubectl logs -n %s %s --all-containers --previous", pod.Namespace, pod.Name)})
		}
	}
	return out
}

// daemonTrouble is what is wrong with a pod of Slinky's own, "" if nothing.
func daemonTrouble(pod *corev1.Pod) string {
	switch pod.Labels[v1beta1.LabelName] {
	case v1beta1.NameSlurmctld, v1beta1.NameSlurmdbd, v1beta1.NameSlurmrestd, v1beta1.NameSlurmd, "slurm-operator", "slurm-operator-webhook",
		"slurm-bridge", "slurm-bridge-scheduler", "slurm-bridge-admission", "slurm-bridge-controllers":
	default:
		return ""
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s waits: %s", c.Name, w.Reason)
		}
	}
	if c := condition(pod.Status.Conditions, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && pod.Spec.NodeName == "" {
		return "it has no node: " + c.Message
	}
	return ""
}

// nodeProblems sums nodes up that have the same cause.
func nodeProblems(nodes []Node) []Problem {
	type key struct{ what, world, by, reason string }
	by, hurts := map[key][]string{}, map[key]bool{}
	var keys []key
	for _, n := range nodes {
		for _, c := range n.Causes {
			k := key{c.What, c.World, c.By, c.Reason}
			if by[k] == nil {
				keys = append(keys, k)
			}
			by[k] = append(by[k], n.Name)
			hurts[k] = hurts[k] || n.Health == HealthDown
		}
	}
	slices.SortStableFunc(keys, func(a, b key) int { return cmp.Compare(len(by[b]), len(by[a])) })
	var out []Problem
	for _, k := range keys {
		names := by[k]
		c := Cause{World: k.world, What: k.what, By: k.by, Reason: k.reason}
		p := Problem{Where: some("node", names), What: c.String(), Do: "slinky why " + names[0], Hurts: hurts[k]}
		if strings.HasPrefix(k.what, "drain") || k.what == "cordoned" {
			p.Do = "slinky why " + names[0] + " tells who may lift it"
		}
		out = append(out, p)
	}
	return out
}

func queueProblems(items []Item) []Problem {
	by := map[string][]Item{}
	var words []string
	for _, i := range items {
		if i.State != StateNeedsAction {
			continue
		}
		word := cmp.Or(i.Word, i.Reason)
		if by[word] == nil {
			words = append(words, word)
		}
		by[word] = append(by[word], i)
	}
	var out []Problem
	for _, word := range words {
		var names []string
		for _, i := range by[word] {
			names = append(names, string(i.Kind)+" "+i.Label())
		}
		first := by[word][0]
		out = append(out, Problem{Where: some("", names), What: "it waits for what doesn't come by itself: " + first.Reason, Do: "slinky why " + first.Target()})
	}
	return out
}

// Target is what to ask "slinky why" about a line.
func (i Item) Target() string {
	if i.Kind == KindPod || i.Kind == KindGroup && i.Job == 0 {
		return i.Pods[0]
	}
	return fmt.Sprint(i.Job)
}

// Label is a line's name, with the number of a job.
func (i Item) Label() string {
	if len(i.Pods) == 0 && i.Job != 0 {
		return fmt.Sprintf("%d %s", i.Job, i.Name)
	}
	return i.Name
}

// some names the first of several things.
func some(kind string, names []string) string {
	s := names[0]
	if len(names) > 1 {
		shown := names[:min(len(names), samples)]
		s = strings.Join(shown, ", ")
		if kind != "" {
			kind += "s"
		}
		if more := len(names) - len(shown); more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
	}
	return strings.TrimSpace(kind + " " + s)
}
