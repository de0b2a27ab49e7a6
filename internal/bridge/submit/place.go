package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/retry"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/environment"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// patchers bounds the calls that place the members of one group at once.
const patchers = 16

// place gives the pods of a running job their nodes.
func (s *Submitter) place(ctx context.Context, o workload.Observed, step workload.Step) (time.Duration, error) {
	key := o.Group.Key
	layout, err := s.layout(ctx, step.Job)
	if err != nil {
		return 0, err
	}
	nodes, err := s.nodes()
	if err != nil {
		return 0, err
	}
	placed, err := placement.Place(step.Mark, layout.Nodes, nodes.Cluster)
	if small := (placement.TooSmallError{}); errors.As(err, &small) && len(step.Pods) == len(step.Mark.Pods) {
		step.Reason = fmt.Sprintf("%v, as somebody made it smaller; a new job is asked for", err)
		return 0, s.cancel(ctx, key, step)
	}
	if err != nil {
		text := fmt.Sprintf("Slurm job %d runs, but %v", step.Job.ID, err)
		_, err := s.hold(ctx, step.Pods, held{reason: reasonNoPlace, text: text, warn: true})
		return 10 * time.Second, err
	}
	if step.Reason = cmp.Or(s.stale(step, placed), s.giveBack(key, step, placed)); step.Reason != "" {
		return 0, s.cancel(ctx, key, step)
	}
	if node, why := s.crowded(step, placed); why != "" {
		return s.awaitRoom(ctx, o, step, placed, node, why)
	}
	refusal, err := s.withDevices(ctx, step, placed)
	if err != nil {
		return 0, err
	}
	if refusal.Why != "" {
		return s.withoutDevices(ctx, step, placed, refusal)
	}
	s.roomCame(ctx, step.Job)
	job := s.memberships(step, layout, placed)
	slots := make(chan struct{}, patchers)
	errs := make([]error, len(step.Pods))
	var again time.Duration
	var wg sync.WaitGroup
	for i, pod := range step.Pods {
		a := scheduler.Allocation{Grant: placed[pod.UID], JobID: step.Job.ID, SLUID: step.Job.SLUID}
		if why := s.clash(pod, a); why != "" {
			_, errs[i] = s.hold(ctx, []*corev1.Pod{pod}, held{reason: reasonOccupied, text: why})
			again = clashRetry
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = s.give(ctx, pod, a, tells(job, step, pod.UID))
		})
	}
	wg.Wait()
	return again, errors.Join(errs...)
}

// tells returns what a pod is told of its job, and what it keeps of it for the bridge.
func tells(job environment.Job, step workload.Step, pod types.UID) map[string]string {
	out := job.Told(pod)
	if record := workload.RecordFor(step.Job, step.Mark, pod); record != "" {
		if out == nil {
			out = map[string]string{}
		}
		out[v1beta1.AnnotationJob] = record
	}
	return out
}

// layout returns what a running job has of each node. The view knows it of every job that it shows running.
func (s *Submitter) layout(ctx context.Context, job slurm.Job) (slurm.Allocation, error) {
	if now, ok := s.View.Job(job.ID); ok && now.SLUID == job.SLUID {
		if a, ok := s.View.Allocation(job.ID); ok {
			return a, nil
		}
	}
	a, err := s.Slurm.Allocation(ctx, job.ID)
	if err != nil {
		return a, fmt.Errorf("read what Slurm job %d has of its nodes: %w", job.ID, err)
	}
	return a, nil
}

// give writes one pod's allocation to the table and to the pod. The table goes
// first: the scheduler looks at the pod again as soon as the patch is seen.
func (s *Submitter) give(ctx context.Context, pod *corev1.Pod, a scheduler.Allocation, told map[string]string) error {
	had, ok := s.Table.Get(pod.UID)
	patch := placementPatch(pod, a, told, s.SchedulerName)
	if ok && had.Equal(a) && (patch == nil || s.behind(pod)) {
		return nil
	}
	s.Table.Put(pod.UID, a)
	s.occupants.put(pod, a.Node, occupant{cores: len(a.Cores)})
	if patch != nil {
		var err error
		if pod, err = s.patchPlacement(ctx, pod, a, told, patch); err != nil || pod == nil {
			return err
		}
		s.setWritten(pod)
	}
	s.Activate(pod)
	s.Counts.Placed(s.Now().Sub(pod.CreationTimestamp.Time))
	return s.allocated(ctx, pod, a)
}

// behind tells whether the informer's version of a pod is from before its allocation was written.
func (s *Submitter) behind(pod *corev1.Pod) bool {
	s.mu.Lock()
	written := s.written[pod.UID]
	s.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, written)
	return err == nil && order < 0
}

func (s *Submitter) setWritten(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[pod.UID] = pod.ResourceVersion
}

// patchPlacement patches a pod, reading it again where it changed meanwhile. It
// returns nil for a pod that is gone.
func (s *Submitter) patchPlacement(ctx context.Context, pod *corev1.Pod, a scheduler.Allocation, told map[string]string, patch []byte) (*corev1.Pod, error) {
	pods := s.Client.CoreV1().Pods(pod.Namespace)
	var out *corev1.Pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var err error
		out, err = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case getErr != nil:
			return getErr
		case now.UID != pod.UID || !workload.Live(now):
			return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
		}
		if patch = placementPatch(now, a, told, s.SchedulerName); patch == nil {
			out = now
			return nil
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		s.forget(pod.UID)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write node %s and Slurm job %d to pod %s/%s: %w", a.Node, a.JobID, pod.Namespace, pod.Name, err)
	}
	return out, nil
}
