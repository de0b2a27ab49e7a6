package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// adopt makes the job of a pod that the published bridge placed one of this
// bridge. Without a pod here that names it, such a job is somebody else's.
func (b *Bridge) adopt(ctx context.Context, pod *corev1.Pod) error {
	id, err := strconv.ParseUint(pod.Labels[v1beta1.LabelJobID], 10, 32)
	if err != nil {
		return nil //nolint:nilerr // a label that names no job names none to adopt
	}
	j, known := b.View.Job(uint32(id))
	if !known || !workload.Adoptable(j, pod) {
		return nil
	}
	var failed error
	comment, err := workload.Adopted(j, b.Index.Cluster(), func(name string) *corev1.Pod {
		var other corev1.Pod
		if err := b.Live.Get(ctx, podName(name), &other); err != nil {
			failed = errors.Join(failed, client.IgnoreNotFound(err))
			return nil
		}
		return &other
	})
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("take over Slurm job %d of pod %s/%s: %w", j.ID, pod.Namespace, pod.Name, err)
	}
	log.FromContext(ctx).Info("Take over a Slurm job that the published bridge made", "job", j.ID)
	if err := b.Slurm.UpdateJob(ctx, j.ID, slurm.JobRequest{AdminComment: comment}); err != nil {
		return fmt.Errorf("take over Slurm job %d of pod %s/%s: %w", j.ID, pod.Namespace, pod.Name, err)
	}
	return b.reread(ctx, j.ID)
}
