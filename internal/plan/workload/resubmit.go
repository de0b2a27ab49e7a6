package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/slurm"
)

// ResubmitAfter slows down where jobs of the same pods have ended before the pods did: it
// returns the last of them, and how long to wait until the next is asked for.
func ResubmitAfter(o Observed, pods []*corev1.Pod, now time.Time) (slurm.Job, time.Duration) {
	var last slurm.Job
	n := 0
	for _, j := range o.Jobs {
		mark, ok := Owned(j, o.Cluster)
		if !ok || !j.States.JobEnded() || RefusedAtOnce(j) || !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return slices.Contains(mark.Pods, p.UID) }) {
			continue
		}
		n++
		if !j.EndTime.Before(last.EndTime) {
			last = j
		}
	}
	if n == 0 {
		return last, 0
	}
	delay := min(time.Second<<min(n-1, 10), 5*time.Minute)
	return last, last.EndTime.Add(delay).Sub(now)
}
