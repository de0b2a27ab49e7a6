package nodeset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// worker is a pod with what is known about it.
type worker struct {
	pod *corev1.Pod
	// slot is its ordinal, or the Kubernetes node that it is for.
	slot    string
	ordinal int
	// node is its name in Slurm.
	node string
	old  bool
	// rank is set once the order is asked for.
	rank rank
}

// sort tells the pods apart by their state and scaling mode.
func (p *planner) sort() {
	var leaving []Step
	p.live = make([]worker, 0, len(p.Pods))
	for i := range p.Pods {
		pod := &p.Pods[i]
		mode := modeOf(p.NodeSet, pod)
		w := worker{pod: pod, node: SlurmNode(pod), old: p.outdated(pod)}
		if mode == v1beta1.ScalingModeDaemonSet {
			w.slot = targetNode(pod)
		} else {
			w.ordinal, _ = ordinalOf(p.NodeSet.Name, pod.Name)
			w.slot = strconv.Itoa(w.ordinal)
		}
		current := (mode == v1beta1.ScalingModeDaemonSet) == p.daemon()
		if current {
			p.taken[w.slot] = true
		}
		switch {
		case pod.DeletionTimestamp != nil:
			leaving = append(leaving, Step{Action: Wait, Pod: identity(pod), Slot: w.slot, Reason: "it is terminating"})
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			p.ended = append(p.ended, w)
		case current:
			p.live = append(p.live, w)
		default:
			p.others = append(p.others, w)
		}
	}
	for _, list := range [][]worker{p.live, p.others, p.ended} {
		slices.SortFunc(list, func(a, b worker) int {
			return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), strings.Compare(a.pod.Name, b.pod.Name))
		})
	}
	slices.SortFunc(leaving, func(a, b Step) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	p.plan.Steps = append(p.plan.Steps, leaving...)
}

// outdated tells whether a new pod would differ from this one.
func (p *planner) outdated(pod *corev1.Pod) bool {
	return p.hash != "" && (!p.equal[pod.Labels[v1beta1.LabelRevisionHash]] || p.staleSsh(pod))
}

// adopt takes over the pods that a NodeSet of this name has left behind, with their jobs.
func (p *planner) adopt() {
	orphans := slices.Clone(p.Orphans)
	slices.SortFunc(orphans, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range orphans {
		pod := &orphans[i]
		ordinal, named := ordinalOf(p.NodeSet.Name, pod.Name)
		mode := modeOf(p.NodeSet, pod)
		if pod.DeletionTimestamp != nil || p.deleting() || mode == v1beta1.ScalingModeStatefulSet && !named {
			continue
		}
		slot := strconv.Itoa(ordinal)
		if mode == v1beta1.ScalingModeDaemonSet {
			slot = targetNode(pod)
		}
		if (mode == v1beta1.ScalingModeDaemonSet) == p.daemon() {
			p.taken[slot] = true
		}
		whole := identity(pod)
		whole.ResourceVersion, whole.OwnerReferences = pod.ResourceVersion, pod.OwnerReferences
		p.step(Step{Action: AdoptPod, Pod: whole, Slot: slot, Reason: "nobody controls it"})
	}
}

// modeOf is the scaling mode that a pod was made in.
func modeOf(n *v1beta1.NodeSet, pod *corev1.Pod) v1beta1.ScalingMode {
	if mode := v1beta1.ScalingMode(pod.Labels[v1beta1.LabelNodeSetScalingMode]); mode != "" {
		return mode
	}
	if _, ok := ordinalOf(n.Name, pod.Name); ok {
		return v1beta1.ScalingModeStatefulSet
	}
	return v1beta1.ScalingModeDaemonSet
}

// targetNode is the Kubernetes node that a pod is on, or may only go to.
func targetNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == fieldNodeName && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// fieldNodeName is the only field that a node affinity can match.
const fieldNodeName = "metadata.name"

// onNode restricts a pod to one Kubernetes node. The scheduler still decides whether and when.
func onNode(spec *corev1.PodSpec, node string) {
	field := corev1.NodeSelectorRequirement{Key: fieldNodeName, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}}}
		return
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchFields = append(slices.Clone(term.MatchFields), field)
	}
}

// ordinalOf reads the ordinal out of a pod's name; ok is false for pods of other NodeSets.
func ordinalOf(nodeSet, pod string) (ordinal int, ok bool) {
	digits, found := strings.CutPrefix(pod, nodeSet+"-")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// SlurmNode is a pod's name in Slurm.
func SlurmNode(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name
}
