package workload

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Prefer returns the nodes that are excluded where the pods can start at once on those
// that they prefer, nil where all are as good: soft node affinity, soft taints,
// soft pod affinity and anti-affinity, soft topology spread. need is how many nodes the job takes.
func Prefer(f Feasibility, fleet *Fleet, pods []*corev1.Pod, o Others, need int) []string {
	if len(pods) == 0 || len(f.usable) <= need {
		return nil
	}
	score := make(map[*fleetNode]int, len(f.usable))
	for _, c := range classesOf(pods) {
		rate(score, c.pod, f, fleet, &o)
	}
	order := slices.Clone(f.usable)
	slices.SortStableFunc(order, func(a, b *fleetNode) int { return cmp.Compare(score[b], score[a]) })
	worst := score[order[max(need, 1)-1]]
	out := slices.Clone(f.Excluded)
	for _, n := range f.usable {
		if score[n] < worst {
			out = append(out, n.name)
		}
	}
	if len(out) == len(f.Excluded) {
		return nil
	}
	slices.Sort(out)
	return out
}

// Particular tells whether a pod prefers some nodes to others.
func Particular(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a != nil && (a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.ScheduleAnyway
	})
}

// SoftTaints tells whether some node asks pods to stay away where they can.
func (f *Fleet) SoftTaints() bool {
	return slices.ContainsFunc(f.kube, func(n NodeFacts) bool {
		return slices.ContainsFunc(n.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
	})
}

// softTaint is what a soft taint weighs: as much as the greatest weight of a preference.
const softTaint = 100

// rate adds what a pod makes of each node.
func rate(score map[*fleetNode]int, pod *corev1.Pod, f Feasibility, fleet *Fleet, o *Others) {
	var preferred *nodeaffinity.PreferredSchedulingTerms
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		// Terms that can't be parsed prefer nothing.
		preferred, _ = nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	t, err := termsOf(pod)
	if err != nil {
		return
	}
	for _, n := range f.usable {
		if preferred != nil {
			score[n] += int(preferred.Score(n.facts.Node))
		}
		for i := range n.facts.Node.Spec.Taints {
			taint := &n.facts.Node.Spec.Taints[i]
			if taint.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
				score[n] -= softTaint
			}
		}
	}
	add := func(t *term, weight int) {
		there := t.domains(fleet, o)
		for _, n := range f.usable {
			if domain, ok := n.facts.Node.Labels[t.key]; ok {
				score[n] += weight * there[domain]
			}
		}
	}
	for i := range t.softNear {
		add(&t.softNear[i].term, t.softNear[i].weight)
	}
	for i := range t.softApart {
		add(&t.softApart[i].term, -t.softApart[i].weight)
	}
	for i := range t.softSpread {
		add(&t.softSpread[i].term, -1)
	}
}
