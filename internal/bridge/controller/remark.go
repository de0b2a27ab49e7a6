package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
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

// recallJob makes sure that the index has the job which covers a pod by the pod's own word: a mark that
// somebody overwrote before the controllers had read it is known by nobody else. It returns false for a
// pod whose job isn't found. Before a pod that is gone is let go, Slurm is asked.
func (r *podReaper) recallJob(ctx context.Context, pod *corev1.Pod, gone bool) bool {
	record, id, says := workload.RecordOf(pod)
	waits := pod.Labels[v1beta1.LabelJobID] == "" // then the scheduler looks
	if !says || waits || r.Index.Has(id, record.SLUID) || gone && !slices.Contains(pod.Finalizers, v1beta1.FinalizerBridge) {
		return true
	}
	if gone {
		if err := r.reread(ctx, id); err != nil {
			// The pod must not wait for Slurm.
			log.FromContext(ctx).Error(err, "Can't look for the pod's job", "job", id)
		}
	}
	if !r.Index.Recall(r.View, pod, func() []*corev1.Pod { return r.siblings(ctx, pod) }) {
		return false
	}
	r.jobs.tell(ctx, id)
	return true
}

// siblings returns the pods that name the same job.
func (b *Bridge) siblings(ctx context.Context, pod *corev1.Pod) []*corev1.Pod {
	var list corev1.PodList
	err := b.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels{v1beta1.LabelJobID: pod.Labels[v1beta1.LabelJobID]})
	if err != nil {
		log.FromContext(ctx).Error(err, "Can't look for the other pods of a job")
		return []*corev1.Pod{pod}
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}
