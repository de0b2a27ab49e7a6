package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/slurm"
)

// brokenHet returns the heterogeneous jobs that wait and can't start as they are,
// with the reason: a component has ended, or waits for a pod that is gone.
// Slurm lets the others wait for it for ever.
func brokenHet(live []markedJob, all []slurm.Job, pods map[types.UID]*corev1.Pod) map[slurm.Number]string {
	broken := map[slurm.Number]string{}
	waits := map[slurm.Number]bool{}
	for _, j := range live {
		if !j.HetJobID.Set || !j.States.Has(slurm.JobPending) {
			continue
		}
		waits[j.HetJobID] = true
		missing := 0
		for _, uid := range j.mark.Pods {
			if uid != "" && pods[uid] == nil {
				missing++
			}
		}
		if missing > 0 {
			broken[j.HetJobID] = fmt.Sprintf("%d of the pods of its component %d have gone while it waited", missing, j.ID)
		}
	}
	for _, j := range all {
		if waits[j.HetJobID] && j.States.JobEnded() {
			broken[j.HetJobID] = fmt.Sprintf("its component %d has ended", j.ID)
		}
	}
	return broken
}
