package nodeset

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// doom is why a pod must go.
type doom struct {
	why   string
	event string
	// scaled: the NodeSet shrinks, the pod's slot is given up.
	scaled bool
	// replaced: the slot is served again.
	replaced bool
}

// condemned returns why each of the pods that must go does, by pod name.
func (p *planner) condemned() map[string]doom {
	out := map[string]doom{}
	if p.deleting() {
		for _, w := range p.workers() {
			out[w.pod.Name] = doom{why: "the NodeSet is being deleted"}
		}
		return out
	}
	surplus := len(p.live) - int(p.desired())
	ranked := p.live
	if surplus > 0 || p.daemon() && len(p.live) > p.slots() || slices.ContainsFunc(p.live, func(w worker) bool { return w.old }) {
		ranked = p.ranked()
	}
	if p.daemon() {
		p.misplaced(ranked, out)
	} else {
		for _, w := range ranked[:max(0, surplus)] {
			out[w.pod.Name] = doom{why: fmt.Sprintf("scale-in to %d workers", p.desired()), scaled: true, event: v1beta1.EventScalingDown}
		}
	}
	if len(p.live) >= int(p.desired()) {
		for _, w := range p.others {
			out[w.pod.Name] = doom{why: "it was made in another scaling mode"}
		}
	}
	p.update(ranked, out)
	return out
}

// slots counts the slots that have a worker, or several.
func (p *planner) slots() int {
	there := make(map[string]bool, len(p.live))
	for _, w := range p.live {
		there[w.slot] = true
	}
	return len(there)
}

// update condemns pods of an old revision, as the update strategy says. Those that aren't
// ready go at once, whatever the strategy allows of the others.
func (p *planner) update(ranked []worker, out map[string]doom) {
	if !slices.ContainsFunc(ranked, func(w worker) bool { return w.old }) {
		return
	}
	budget := 0
	strategy := p.NodeSet.Spec.UpdateStrategy.Type
	switch strategy {
	case v1beta1.UpdateOnDelete:
		return
	case v1beta1.UpdateScheduled:
	default:
		budget = p.maxUnavailable() - p.unavailable(out)
	}
	// Who drains already goes on: its place in the budget is spent.
	ranked = slices.Clone(ranked)
	slices.SortStableFunc(ranked, func(a, b worker) int { return -boolean(p.drainsForUs(a), p.drainsForUs(b)) })
	for _, w := range ranked {
		if _, gone := out[w.pod.Name]; gone || !w.old {
			continue
		}
		doomed := doom{why: "update to the new pod template", replaced: true, event: v1beta1.EventRollingUpdate}
		switch {
		case !workernode.Ready(w.pod):
			// It is no loss.
		case strategy == v1beta1.UpdateScheduled:
			if !p.inMaintenance(w.node) {
				continue
			}
			doomed.why, doomed.event = "update in the maintenance window", v1beta1.EventScheduledUpdate
		case budget <= 0:
			continue
		default:
			budget--
		}
		out[w.pod.Name] = doomed
	}
}

// unavailable counts what a rolling update must not add to: slots without a pod that stays,
// and pods that aren't available. An old one that isn't ready counts, too: it is replaced at
// once, and no healthy one beyond what is allowed goes with it.
func (p *planner) unavailable(out map[string]doom) int {
	serving := 0
	for _, w := range p.live {
		_, gone := out[w.pod.Name]
		switch {
		case gone:
		case w.old && workernode.Ready(w.pod), p.available(w.pod):
			serving++
		case workernode.Ready(w.pod):
			p.again(p.availableIn(w.pod))
		}
	}
	return max(0, int(p.desired())-serving)
}

func (p *planner) drainsForUs(w worker) bool {
	n := p.Slurm.Nodes[w.node]
	return workernode.Draining(n) && workernode.OwnsReason(n.Reason)
}

func (p *planner) maxUnavailable() int {
	value := intstr.FromString("25%")
	if r := p.NodeSet.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		value = *r.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(p.desired()), true)
	if err != nil {
		p.problem(v1beta1.ReasonInvalidSpec, "spec.updateStrategy.rollingUpdate.maxUnavailable: "+err.Error())
		return 1
	}
	return max(1, n)
}
