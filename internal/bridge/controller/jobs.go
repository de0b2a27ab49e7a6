package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// jobReaper ends jobs none of whose pods is left.
type jobReaper struct{ *Bridge }

// Reconcile handles one job.
func (r *jobReaper) Reconcile(ctx context.Context, id uint32) (ctrl.Result, error) {
	if err := r.remark(ctx, id); err != nil {
		return ctrl.Result{}, err
	}
	j, ok := r.Index.Get(id)
	if !ok {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.cancelIfAlone(ctx, j)
}

// cancelIfAlone cancels a job if all its pods are really gone.
func (b *Bridge) cancelIfAlone(ctx context.Context, j slurm.Job) error {
	mark, ok := workload.Owned(j, b.Index.Cluster())
	if !ok || j.States.JobEnded() {
		return nil
	}
	c, _ := workload.ParseComment(j)
	ends := make([]workload.PodEnd, len(c.Pods))
	for i, name := range c.Pods {
		pod, err := b.find(ctx, podName(name), mark.Pods[i])
		if err != nil {
			return err
		}
		if pod == nil {
			ends[i] = b.recall(mark.Pods[i])
			continue
		}
		if gone, err := b.gone(ctx, pod); err != nil || !gone {
			return err
		}
		ends[i] = workload.EndOf(pod)
	}
	return b.cancel(ctx, j, workload.OutcomeOf(ends))
}

// find returns a pod, nil where there is none of that UID. One that the informers
// don't show is looked up once more: they may be behind.
func (b *Bridge) find(ctx context.Context, name types.NamespacedName, uid types.UID) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := b.Client.Get(ctx, name, &pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != uid {
		err = b.Live.Get(ctx, name, &pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	case pod.UID != uid:
		return nil, nil
	}
	return &pod, nil
}

// cancel cancels a job, making sure that it is still the one that it was: ids come
// again. What became of its pods goes before, since a job that has ended takes no comment.
func (b *Bridge) cancel(ctx context.Context, j slurm.Job, o workload.Outcome) error {
	// A pod and its job are often looked at by two at once.
	lock := &b.ending[j.ID%uint32(len(b.ending))]
	lock.Lock()
	defer lock.Unlock()
	if now, known := b.View.Job(j.ID); !known || now.States.JobEnded() {
		return nil
	}
	if known, err := b.View.RefreshJob(ctx, j.ID); err != nil || !known {
		return err
	}
	now, known := b.View.Job(j.ID)
	if !known || now.States.JobEnded() || now.SLUID != j.SLUID {
		return nil
	}
	if now.AdminComment != j.AdminComment {
		b.Index.Follow(b.View, j.ID)
		return fmt.Errorf("look again at Slurm job %d, whose comment has changed", j.ID)
	}
	ran := now.States.HasAny(slurm.JobRunning, slurm.JobSuspended)
	if ran {
		if err := b.record(ctx, now, o); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Cancel a Slurm job whose pods are gone", "job", j.ID, "pods", o.String())
	err := b.Slurm.CancelJobs(ctx, j.ID)
	b.Ends.Job(err)
	if err != nil {
		return fmt.Errorf("cancel Slurm job %d, whose pods are gone: %w", j.ID, err)
	}
	if ran && o.ExitCode != 0 {
		b.exits.AddAfter(exit{id: j.ID, code: uint8(min(o.ExitCode, 255))}, 0)
	}
	_, err = b.View.RefreshJob(ctx, j.ID)
	return err
}

// record writes to a job how its pods ended. The comment for people is somebody else's if there is one.
func (b *Bridge) record(ctx context.Context, j slurm.Job, o workload.Outcome) error {
	u := slurm.JobRequest{AdminComment: workload.Ended(j, o)}
	if j.Comment == "" {
		u.Comment = o.String()
	}
	err := b.Slurm.UpdateJob(ctx, j.ID, u)
	if err != nil && !errors.Is(err, slurm.ErrUnavailable) && ctx.Err() == nil {
		// Slurm refuses it. The job's end is more important.
		log.FromContext(ctx).Error(err, "Can't write to the Slurm job how its pods ended", "job", j.ID)
		return nil
	}
	return err
}
