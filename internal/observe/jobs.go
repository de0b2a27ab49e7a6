package observe

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
)

// Jobs returns the jobs of a cluster that wait and those that hold nodes, as they were last seen.
// Whether that is recent enough, its View tells.
func (c *Clusters) Jobs(name types.NamespacedName) []slurm.Job {
	c.mu.Lock()
	k := c.open[name]
	c.mu.Unlock()
	if k == nil {
		return nil
	}
	waiting := k.cache.JobsInState(slurm.JobPending)
	return slices.Concat(waiting, k.cache.JobsInState(slurm.JobRunning), k.cache.JobsInState(slurm.JobSuspended))
}
