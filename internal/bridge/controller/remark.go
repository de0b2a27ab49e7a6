package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// remark gives a job back the mark that somebody has removed.
func (b *Bridge) remark(ctx context.Context, id uint32) error {
	for _, j := range b.Index.Unmarked() {
		if j.ID != id {
			continue
		}
		log.FromContext(ctx).Info("Somebody has removed the bridge's mark from a Slurm job: write it again", "job", id)
		return b.Index.Remark(ctx, b.Slurm, b.View, j)
	}
	return nil
}
