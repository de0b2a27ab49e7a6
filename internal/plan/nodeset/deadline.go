package nodeset

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
)

// Deadlines are when the last running job of each busy worker must have ended, by the worker's
// name in Slurm. jobsOn returns the jobs that hold a node.
func Deadlines(pods []corev1.Pod, nodes map[string]slurm.Node, jobsOn func(node string) []slurm.Job) map[string]time.Time {
	out := map[string]time.Time{}
	for i := range pods {
		name := SlurmNode(&pods[i])
		if n, known := nodes[name]; !known || !workernode.Busy(n) {
			continue
		}
		for _, job := range jobsOn(name) {
			if end := deadline(job); job.States.Has(slurm.JobRunning) && end.After(out[name]) {
				out[name] = end
			}
		}
	}
	return out
}

// deadline is when a running job must have ended.
func deadline(job slurm.Job) time.Time {
	minutes, finite := job.TimeLimit.Get()
	if !finite || minutes > math.MaxInt32 {
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // the last time that RFC 3339 can say
	}
	return job.StartTime.Add(time.Duration(minutes) * time.Minute)
}
