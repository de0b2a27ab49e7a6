package jobs

import (
	"context"
	"fmt"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

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
