package nodeset

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// remove takes the condemned pods out: their Slurm nodes are drained, and they are deleted
// once no job uses them. Without Slurm's answer nothing is deleted.
func (p *planner) remove(condemned map[string]doom) {
	overdue := p.deleting() && p.overdue()
	for _, w := range p.workers() {
		d, ok := condemned[w.pod.Name]
		switch {
		case !ok:
			p.unregistered(w)
		case overdue:
			p.delete(Step{Pod: identity(w.pod), Slot: w.slot, Reason: d.why + ": the time to drain is over", Event: d.event, Force: true})
		case !p.Slurm.Known:
			p.step(Step{Action: Wait, Pod: identity(w.pod), Node: w.node, Slot: w.slot, Reason: d.why + ": it can't be known whether jobs run there: " + p.Slurm.Why})
		case p.Slurm.drained(w.node):
			p.delete(Step{Pod: identity(w.pod), Node: w.node, Slot: w.slot, Reason: d.why + ": no job uses it", Event: d.event})
		case workernode.Draining(p.Slurm.Nodes[w.node]):
			p.step(Step{Action: Wait, Pod: identity(w.pod), Node: w.node, Slot: w.slot, Reason: d.why + ": jobs still run on Slurm node " + w.node})
		}
	}
}

// delete plans a deletion, as far as one plan may make them.
func (p *planner) delete(s Step) {
	if p.deletes >= burst {
		p.again(againAtOnce)
		return
	}
	p.deletes++
	s.Action = DeletePod
	p.step(s)
}

// removeEnded deletes the pods whose containers have ended, so that others take their places.
// Where that happens again and again it takes longer and longer.
func (p *planner) removeEnded() {
	for _, w := range p.ended {
		if p.held(w.slot) {
			continue
		}
		s := Step{Pod: identity(w.pod), Slot: w.slot, Failed: true, Reason: "its containers have ended: " + endedReason(w.pod)}
		if p.daemon() {
			s.Event = v1beta1.EventFailedDaemonPod
			if w.pod.Status.Phase == corev1.PodSucceeded {
				s.Event = v1beta1.EventSucceededDaemonPod
			}
		}
		p.delete(s)
	}
}

func endedReason(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return string(pod.Status.Phase)
}

// registerPatience is how long a worker that Slurm doesn't know has to register again by
// itself: it asks every one to two minutes, and is sure after three answers.
const registerPatience = 4 * time.Minute

// unregistered deletes a pod that Slurm hasn't known for a while, as its condition says: no
// job can run there. A Slurm that has lost its state must not take all at once, and steps may
// still run in the pod, which go on where slurmd registers by itself.
func (p *planner) unregistered(w worker) {
	if _, registered := p.Slurm.Nodes[w.node]; registered || !p.Slurm.Known || !p.available(w.pod) || p.deleting() {
		return
	}
	ready := readySince(w.pod)
	if ready.IsZero() {
		return
	}
	since := unknownSince(w.pod)
	if since.IsZero() { // its condition comes first
		if wait := ready.Add(workernode.RegisterGrace).Sub(p.Now); wait > 0 {
			p.again(wait)
		}
		return
	}
	if wait := since.Add(registerPatience).Sub(p.Now); wait > 0 {
		p.again(wait)
		return
	}
	if p.held(w.slot) || p.unknown >= p.maxUnavailable() {
		return
	}
	p.unknown++
	p.delete(Step{Pod: identity(w.pod), Node: w.node, Slot: w.slot, Failed: true, Event: v1beta1.EventNodeNotRegistered,
		Reason: "it is ready, but Slurm hasn't known node " + w.node + " for " + registerPatience.String()})
}

// unknownSince is since when Slurm doesn't know a pod's node, zero if it does.
func unknownSince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1beta1.PodConditionNotRegistered && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
