package nodeset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// condemned returns why each of the pods that must go does, by pod name.
func (p *planner) condemned() map[string]string {
	out := map[string]string{}
	ranked := slices.Clone(p.live)
	slices.SortStableFunc(ranked, p.worth)
	surplus := len(p.live) - int(p.desired())
	for _, w := range ranked {
		if surplus <= 0 {
			break
		}
		surplus--
		out[w.pod.Name] = fmt.Sprintf("scale-in to %d workers", p.desired())
	}
	p.update(ranked, out)
	return out
}

// update condemns pods of an old revision: those that aren't ready at once, the others as
// far as maxUnavailable allows.
func (p *planner) update(ranked []worker, out map[string]string) {
	if t := p.NodeSet.Spec.UpdateStrategy.Type; t != v1beta1.UpdateRolling && t != "" {
		return
	}
	const why = "update to the new pod template"
	budget := p.maxUnavailable() - (int(p.desired()) - min(int(p.desired()), len(p.live)))
	for _, w := range ranked {
		_, gone := out[w.pod.Name]
		if !gone && !workernode.Ready(w.pod) && !w.old {
			budget--
		}
	}
	for _, w := range ranked {
		if _, gone := out[w.pod.Name]; gone || !w.old {
			continue
		}
		if workernode.Ready(w.pod) {
			if budget <= 0 {
				continue
			}
			budget--
		}
		out[w.pod.Name] = why
	}
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

// remove takes the condemned pods out: their Slurm nodes are drained, and they are deleted
// once no job uses them. Without Slurm's answer nothing is deleted.
func (p *planner) remove(condemned map[string]string) {
	for _, w := range p.live {
		why, ok := condemned[w.pod.Name]
		switch {
		case !ok:
		case !p.Slurm.Known:
			p.step(Step{Action: Wait, Pod: identity(w.pod), Node: w.node, Reason: why + ": it can't be known whether jobs run there: " + p.Slurm.Why})
		case p.Slurm.drained(w.node):
			p.step(Step{Action: DeletePod, Pod: identity(w.pod), Node: w.node, Reason: why + ": no job uses it"})
		case workernode.Draining(p.Slurm.Nodes[w.node]):
			p.step(Step{Action: Wait, Pod: identity(w.pod), Node: w.node, Reason: why + ": jobs still run on Slurm node " + w.node})
		}
	}
}

// forget deletes the Slurm records of workers that the operator has taken out. Slurm would
// keep their old features and sizes for the next pod of that name.
func (p *planner) forget() {
	prefix, err := p.NodeSet.HostnamePrefix()
	if err != nil || !p.Slurm.Known {
		return
	}
	if prefix == "" {
		prefix = p.NodeSet.Name + "-"
	}
	inUse := map[string]bool{}
	for i := range p.Pods {
		inUse[slurmNode(&p.Pods[i])] = true
	}
	for _, name := range slices.Sorted(maps.Keys(p.Slurm.Nodes)) {
		n := p.Slurm.Nodes[name]
		if _, ours := ordinalOf(strings.TrimSuffix(prefix, "-"), name); !ours || !strings.HasSuffix(prefix, "-") || inUse[name] {
			continue
		}
		if workernode.OwnsReason(n.Reason) && p.Slurm.drained(name) {
			p.step(Step{Action: Forget, Node: name, Reason: "its pod is gone"})
		}
	}
}

// worth compares two workers: the one that should go first is the lesser.
func (p *planner) worth(a, b worker) int {
	return cmp.Or(
		boolean(a.pod.Spec.NodeName != "", b.pod.Spec.NodeName != ""),
		cmp.Compare(phaseRank(a.pod), phaseRank(b.pod)),
		boolean(workernode.Ready(a.pod), workernode.Ready(b.pod)),
		cmp.Compare(deletionCost(a.pod), deletionCost(b.pod)),
		deadline(a.pod).Compare(deadline(b.pod)),
		boolean(p.Slurm.busy(a.node), p.Slurm.busy(b.node)),
		-boolean(p.drains(a), p.drains(b)),
		cmp.Compare(b.ordinal, a.ordinal),
	)
}

func (p *planner) drains(w worker) bool {
	return w.pod.Annotations[v1beta1.AnnotationPodCordon] == "true" || workernode.Draining(p.Slurm.Nodes[w.node])
}

func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func phaseRank(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

func deletionCost(pod *corev1.Pod) int {
	n, err := strconv.ParseInt(pod.Annotations[v1beta1.AnnotationPodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

func deadline(pod *corev1.Pod) time.Time {
	t, err := time.Parse(time.RFC3339, pod.Annotations[v1beta1.AnnotationPodDeadline])
	if err != nil {
		return time.Time{}
	}
	return t
}
