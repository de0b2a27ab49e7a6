package nodeset

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/slinky-hpc/slinky/api/v1beta1"
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
	pod, err := p.scheduled()
	if err != nil {
		return p.pins // it is said where pods are made
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
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

// scheduled is what the scheduler would look at of a pod: cheaper to make than all of it.
func (p *planner) scheduled() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := p.NodeSet.Spec.Template.PodSpec.Decode(&pod.Spec); err != nil {
		return nil, fmt.Errorf("template.spec: %w", err)
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerations()...)
	return pod, nil
}

// tolerations are those of all workers.
func tolerations() []corev1.Toleration {
	return []corev1.Toleration{{Key: v1beta1.TaintWorker, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
}

// ordinalToNode is pinned as the status keeps it: never nil once it was set, so that it goes away.
func (p *planner) ordinalToNode() map[string]string {
	if pins := p.pinned(); len(pins) > 0 {
		return maps.Clone(pins)
	}
	return nil
}
