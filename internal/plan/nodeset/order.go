package nodeset

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
)

// rank is what decides which worker goes first.
type rank struct {
	assigned, ready, busy, drains bool
	phase, cost                   int
	deadline, readySince          time.Time
}

// ranked are the workers of the current scaling mode, those first that should go first.
func (p *planner) ranked() []worker {
	out := slices.Clone(p.live)
	for i := range out {
		out[i].rank = p.rank(out[i])
	}
	slices.SortFunc(out, worth)
	return out
}

func (p *planner) rank(w worker) rank {
	return rank{
		assigned: w.pod.Spec.NodeName != "", ready: workernode.Ready(w.pod), busy: p.Slurm.busy(w.node), drains: p.drains(w),
		phase: phaseRank(w.pod), cost: deletionCost(w.pod), deadline: p.deadline(w), readySince: readySince(w.pod),
	}
}

// worth compares two workers: the one that should go first is the lesser. It is a strict order.
func worth(a, b worker) int {
	x, y := &a.rank, &b.rank
	for _, c := range [...]int{
		boolean(x.assigned, y.assigned), x.phase - y.phase, boolean(x.ready, y.ready), cmp.Compare(x.cost, y.cost),
		x.deadline.Compare(y.deadline), boolean(x.busy, y.busy), -boolean(x.drains, y.drains), b.ordinal - a.ordinal,
		y.readySince.Compare(x.readySince), b.pod.CreationTimestamp.Compare(a.pod.CreationTimestamp.Time),
	} {
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.pod.Name, b.pod.Name)
}

// deadline is when a worker's jobs must have ended, as Slurm says or, while it says nothing, as it last did.
func (p *planner) deadline(w worker) time.Time {
	if p.Slurm.Known {
		return p.Slurm.Deadlines[w.node]
	}
	t, err := time.Parse(time.RFC3339, w.pod.Annotations[v1beta1.AnnotationPodDeadline])
	if err != nil {
		return time.Time{}
	}
	return t
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
	text := pod.Annotations[v1beta1.AnnotationPodDeletionCost]
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

func readySince(pod *corev1.Pod) time.Time {
	if c := readyCondition(pod); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// available tells whether a pod has been ready for minReadySeconds.
func (p *planner) available(pod *corev1.Pod) bool {
	return workernode.Ready(pod) && p.availableIn(pod) <= 0
}

// availableIn is how long a ready pod has still to stay ready to be available.
func (p *planner) availableIn(pod *corev1.Pod) time.Duration {
	wait := time.Duration(p.NodeSet.Spec.MinReadySeconds) * time.Second
	if wait == 0 {
		return 0
	}
	return readySince(pod).Add(wait).Sub(p.Now)
}
