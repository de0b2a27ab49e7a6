package jobs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Recall makes the index have the job that a pod says covers it, where the view has that very job
// and somebody has overwritten its mark before it was read here. siblings returns the pods that may be
// of the same job. It tells whether the index has the job.
func (x *Index) Recall(v View, pod *corev1.Pod, siblings func() []*corev1.Pod) bool {
	r, id, ok := workload.RecordOf(pod)
	if !ok {
		return false
	}
	if x.Has(id, r.SLUID) {
		return true
	}
	if j, known := v.Job(id); !known || j.SLUID != r.SLUID {
		return false
	}
	pods := siblings()
	x.mu.Lock()
	defer x.mu.Unlock()
	now, known := v.Job(id)
	if !known || now.SLUID != r.SLUID {
		return false
	}
	if had, ok := x.jobs[id]; ok && had.SLUID == r.SLUID {
		return true
	}
	if c, ok := workload.Remembered(now, pods, x.cluster); ok {
		before := now
		before.AdminComment = c.Encode()
		x.put(before)
	}
	return x.put(now)
}

// Has tells whether the index has the very job of an id.
func (x *Index) Has(id uint32, sluid string) bool {
	j, ok := x.Get(id)
	return ok && j.SLUID == sluid
}

// Updater changes a job in Slurm.
type Updater interface {
	UpdateJob(ctx context.Context, id uint32, req slurm.JobRequest) error
}

// Refresher is a view that can read one job from Slurm now.
type Refresher interface {
	View
	RefreshJob(ctx context.Context, id uint32) (bool, error)
}

// Remark gives a job of Unmarked its mark back, unless it has one again, or its id is another's by now.
func (x *Index) Remark(ctx context.Context, client Updater, view Refresher, j slurm.Job) error {
	if _, err := view.RefreshJob(ctx, j.ID); err != nil {
		return fmt.Errorf("read Slurm job %d: %w", j.ID, err)
	}
	now, known := view.Job(j.ID)
	if _, marked := workload.Owned(now, x.cluster); known && !marked && !now.States.JobEnded() && lostMark(j, now) {
		if err := client.UpdateJob(ctx, j.ID, slurm.JobRequest{AdminComment: j.AdminComment}); err != nil {
			return fmt.Errorf("write again the mark of Slurm job %d, which somebody has removed: %w", j.ID, err)
		}
		if _, err := view.RefreshJob(ctx, j.ID); err != nil {
			return fmt.Errorf("read Slurm job %d: %w", j.ID, err)
		}
	}
	x.Follow(view, j.ID)
	return nil
}
