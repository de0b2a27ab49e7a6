package nodeset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	componenthelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// place is a Kubernetes node as a NodeSet in DaemonSet mode sees it.
type place struct {
	// hostname is that of a pod there, and its name in Slurm.
	hostname string
	// run: a pod should be made there. stay: one that is there may stay.
	run, stay bool
	// cordoned: run doesn't hold only because the node is cordoned.
	cordoned bool
	// why stay is false.
	why string
}

// findPlaces looks at all Kubernetes nodes with the eyes of a pod of the template.
func (p *planner) findPlaces() {
	if !p.daemon() {
		return
	}
	p.places = make(map[string]place, len(p.Nodes))
	pod, err := p.scheduled()
	if err != nil {
		if p.hash != "" { // else it is told already
			p.problem(v1beta1.ReasonInvalidSpec, "spec."+err.Error())
		}
		// Where a pod would fit can't be known: what is there stays.
		for _, w := range p.live {
			p.places[w.slot] = place{hostname: w.pod.Spec.Hostname, stay: true}
		}
		return
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for name, node := range p.Nodes {
		p.places[name] = placeOn(node, pod, required)
	}
	p.sharedHostnames()
}

func placeOn(node *corev1.Node, pod *corev1.Pod, required nodeaffinity.RequiredNodeAffinity) place {
	out := place{hostname: daemonHostname(node)}
	if fits, err := required.Match(node); !fits || err != nil {
		out.why = "its labels don't match the pod's node selector and affinity"
		return out
	}
	out.run, out.stay = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || componenthelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, true) {
			continue
		}
		if taint.Key == corev1.TaintNodeUnschedulable && taint.Effect == corev1.TaintEffectNoSchedule {
			out.cordoned = true
			continue
		}
		out.run = false
		// A node that is lost is Kubernetes' to evict from, once its patience is over.
		if taint.Effect == corev1.TaintEffectNoExecute && taint.Key != corev1.TaintNodeNotReady && taint.Key != corev1.TaintNodeUnreachable {
			out.stay = false
			out.why = "its taint " + taint.ToString() + " isn't tolerated"
		}
	}
	if node.Spec.Unschedulable && !componenthelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, unschedulable(), true) {
		out.cordoned = true
	}
	out.cordoned = out.cordoned && out.run
	out.run = out.run && !out.cordoned
	return out
}

func unschedulable() *corev1.Taint {
	return &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

// daemonHostname is the host name, and the Slurm node name, of a Kubernetes node's worker.
func daemonHostname(node *corev1.Node) string {
	if name := node.Annotations[v1beta1.AnnotationHostnameOverride]; name != "" {
		return name
	}
	short, _, _ := strings.Cut(node.Name, ".")
	return short
}

// sharedHostnames leaves a host name to one Kubernetes node: to the one whose worker has it, else to the first.
func (p *planner) sharedHostnames() {
	owner := make(map[string]string, len(p.places))
	for _, w := range p.live {
		if p.places[w.slot].hostname == w.pod.Spec.Hostname && owner[w.pod.Spec.Hostname] == "" {
			owner[w.pod.Spec.Hostname] = w.slot
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.places)) {
		at := p.places[name]
		first := owner[at.hostname]
		switch {
		case !at.run && !at.stay:
		case first == "":
			owner[at.hostname] = name
		case first != name:
			p.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf(
				"Kubernetes nodes %s and %s would both be Slurm node %s: give one of them another name by the annotation %s", first, name, at.hostname, v1beta1.AnnotationHostnameOverride))
			at.run, at.cordoned = false, false
			p.places[name] = at
		}
	}
}

// wantedPlaces are the Kubernetes nodes that should have a worker, by name: those where one
// should run, and those where one is that may stay. A worker that was lost on a node that is
// only cordoned is made again, drained: Slurm still has its record. A cordoned node that
// never had a worker gets none.
func (p *planner) wantedPlaces() []string {
	if p.wanted != nil {
		return p.wanted
	}
	there := make(map[string]bool, len(p.live))
	for _, w := range p.live {
		there[w.slot] = true
	}
	out := []string{}
	for name, at := range p.places {
		_, recorded := p.Slurm.Nodes[at.hostname]
		if at.run || at.stay && there[name] || at.cordoned && (recorded && p.Slurm.Known || p.taken[name]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	p.wanted = out
	return out
}

// misplaced condemns workers in DaemonSet mode that aren't where or what they should be.
func (p *planner) misplaced(ranked []worker, out map[string]doom) {
	best := make(map[string]worker, len(p.live))
	for _, w := range ranked { // the most worthy one comes last
		best[w.slot] = w
	}
	for _, w := range ranked {
		at, known := p.places[w.slot]
		switch {
		case w.slot == "" || !known:
			out[w.pod.Name] = doom{why: fmt.Sprintf("its Kubernetes node %q is gone", w.slot)}
		case !at.stay:
			out[w.pod.Name] = doom{why: "Kubernetes node " + w.slot + ": " + at.why}
		case best[w.slot].pod.Name != w.pod.Name:
			out[w.pod.Name] = doom{why: "Kubernetes node " + w.slot + " has another worker, " + best[w.slot].pod.Name}
		case w.pod.Spec.Hostname != at.hostname && !w.pod.Spec.HostNetwork && p.hash != "":
			out[w.pod.Name] = doom{why: fmt.Sprintf("its host name is to be %s, not %s", at.hostname, w.pod.Spec.Hostname), event: v1beta1.EventHostnameMismatch}
		}
	}
}
