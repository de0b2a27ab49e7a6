package nodeset

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// pinned is where the ordinals of a NodeSet with pinToNode belong: where a pod of theirs was
// last, unless that node is gone or the template doesn't want it any more.
func (p *planner) pinned() map[string]string {
	if !p.NodeSet.Spec.PinToNode || p.daemon() {
		return nil
	}
	if p.pins != nil {
		return p.pins
	}
	p.pins = map[string]string{}
	required := p.requiredAffinity()
	keep := func(slot, name string) {
		node := p.Nodes[name]
		if node == nil {
			return
		}
		if fits, err := required.Match(node); fits && err == nil {
			p.pins[slot] = name
		}
	}
	for slot, name := range p.NodeSet.Status.OrdinalToNode {
		keep(slot, name)
	}
	for _, w := range p.live {
		if w.pod.Spec.NodeName != "" && p.pins[w.slot] == "" {
			keep(w.slot, w.pod.Spec.NodeName)
		}
	}
	return p.pins
}

// requiredAffinity is what the template asks of a Kubernetes node.
func (p *planner) requiredAffinity() nodeaffinity.RequiredNodeAffinity {
	pod := &corev1.Pod{}
	// What can't be read is said where pods are made.
	if err := p.NodeSet.Spec.Template.PodSpec.Decode(&pod.Spec); err != nil {
		pod.Spec = corev1.PodSpec{}
	}
	return nodeaffinity.GetRequiredNodeAffinity(pod)
}

// ordinalToNode is pinned as the status keeps it: never nil once it was set, so that it goes away.
func (p *planner) ordinalToNode() map[string]string {
	if pins := p.pinned(); len(pins) > 0 {
		return maps.Clone(pins)
	}
	return nil
}
