package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// update makes a job that waits ask for what its workload is by now. The job keeps
// its place in the queue.
func (s *Submitter) update(ctx context.Context, o workload.Observed, step workload.Step) (time.Duration, error) {
	pods := append(slices.Clone(step.Pods), o.Group.Reserved...)
	workload.ByRank(pods)
	req, why, err := s.request(ctx, jobGroup(o.Group, step), pods)
	s.setBlocked(o.Group.Key, why.blocks())
	if err != nil || why.reason != "" {
		_, holdErr := s.hold(ctx, step.Pods, why)
		return 30 * time.Second, errors.Join(err, holdErr)
	}
	if p := req.parts; p != nil {
		step.Reason = fmt.Sprintf("by now its pods must be %d components of a heterogeneous job", len(p))
		return 0, s.cancel(ctx, o.Group.Key, step)
	}
	err = s.Slurm.UpdateJob(ctx, step.Job.ID, workload.Change(req.JobRequest))
	if err == nil {
		klog.FromContext(ctx).Info("Slurm changed the job", "workload", o.Group.Key.String(), "job", step.Job.ID, "pods", workload.Names(step.Pods))
		return 0, s.refresh(ctx, step.Job.ID)
	}
	if !errors.Is(err, slurm.ErrInvalid) && !errors.Is(err, slurm.ErrNotFound) {
		return 0, fmt.Errorf("change Slurm job %d of %s: %w", step.Job.ID, o.Group.Key, err)
	}
	// Slurm changes a job that has started meanwhile no more. What it is now decides what comes next.
	if err := s.refresh(ctx, step.Job.ID); err != nil {
		return 0, err
	}
	if j, ours := s.Index.Get(step.Job.ID); !ours || !j.States.Has(slurm.JobPending) {
		return time.Millisecond, nil
	}
	_, holdErr := s.hold(ctx, step.Pods, held{reason: reasonRefused, text: explain.Refused(err), warn: true})
	return time.Minute, holdErr
}

// notRead waits until the kind of a key has been read, and tells its pods if that fails.
func (s *Submitter) notRead(ctx context.Context, key workload.Key, err error) (time.Duration, error) {
	var failed *kindError
	if !errors.As(err, &failed) {
		return 100 * time.Millisecond, nil
	}
	pods, err := s.podsOf(key)
	if err != nil {
		return 0, err
	}
	waiting := slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !workload.Live(pod) || pod.Spec.NodeName != "" })
	_, err = s.hold(ctx, waiting, held{reason: reasonMembers, text: failed.Error(), warn: true})
	return 5 * time.Second, err
}
