package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Slurm gave a job cores of a node on which Kubernetes has no room for its pods beside those that
// are there. Where another node has room now, they get another job there, and only then is this one given
// back. Else they wait where they are: the next pod that ends there makes room, and what Slurm has
// decided about their turn stands.

const (
	// roomRetry is how often another node is looked for; a pod that leaves the node is told at once.
	roomRetry = 5 * time.Second
	// longWait is from how long on a job gets back the time that its pods have waited.
	longWait = time.Minute
)

// crowdWait is a job whose pods wait for room on its node.
type crowdWait struct{ since, tried time.Time }

func (s *Submitter) crowdWaits(job uint32) crowdWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.crowds[job]
	if w.since.IsZero() {
		w.since = s.Now()
	}
	s.crowds[job] = w
	return w
}

// roomDue tells whether another node is to be looked for again.
func (s *Submitter) roomDue(job uint32) bool {
	w := s.crowdWaits(job)
	if s.Now().Sub(w.tried) < roomRetry {
		return false
	}
	w.tried = s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crowds[job] = w
	return true
}

// awaitRoom is for pods whose node has no room for all of them: one that is bound couldn't be taken back.
func (s *Submitter) awaitRoom(ctx context.Context, o workload.Observed, step workload.Step, placed map[types.UID]placement.Grant, node, why string) (time.Duration, error) {
	for _, pod := range step.Pods {
		g := placed[pod.UID]
		s.occupants.put(pod, g.Node, occupant{cores: len(g.Cores), job: step.Job.ID, key: o.Group.Key})
	}
	g := o.Group
	whole := slices.Equal(uids(step.Pods), slices.Sorted(slices.Values(step.Mark.Pods))) && !step.Job.HetJobID.Set && len(g.MinResources) == 0
	if !whole {
		// A part of a group can't move alone. It is given back like one that Kubernetes refuses.
		for _, pod := range step.Pods {
			if placed[pod.UID].Node == node {
				s.refusals.note(pod.UID, node, why, s.Now())
			}
		}
	} else if s.roomDue(step.Job.ID) {
		if done, err := s.moveOn(ctx, o, step, placed, node); done || err != nil {
			return 0, err
		}
	}
	text := fmt.Sprintf("Slurm job %d has node %s, and Kubernetes has %s", step.Job.ID, node, why)
	_, err := s.hold(ctx, step.Pods, held{reason: reasonOccupied, text: text})
	return roomRetry, err
}

// moveOn gets the pods of a job another one on nodes with room, if there are such now. Where the
// node can't have room for them at all, the job is given back at once.
func (s *Submitter) moveOn(ctx context.Context, o workload.Observed, step workload.Step, placed map[types.UID]placement.Grant, node string) (bool, error) {
	pods := slices.Clone(step.Pods)
	workload.ByRank(pods)
	p, why, err := s.request(ctx, o.Group, pods)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return placed[pod.UID].Node == node })
	slurmNode := placed[pods[i].UID].SlurmNode
	if why.reason == reasonNoNode || p.parts != nil || slices.Contains(p.ExcludedNodes, slurmNode) {
		step.Reason = fmt.Sprintf("node %s has no room for its pods beside those that no job covers", node)
		return true, s.cancel(ctx, o.Group.Key, step)
	}
	if why.reason != "" || s.Index.Pending(p.Partition) != 0 || !p.feasible.HasRoom(pods, p.JobRequest, slurmNode) {
		return false, nil
	}
	req := p.JobRequest
	if p.now != nil {
		req = *p.now
	}
	req.ExcludedNodes = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(req.ExcludedNodes), slurmNode))))
	id, err := s.Slurm.AllocateNow(ctx, req)
	switch {
	case errors.Is(err, slurm.ErrBusy), errors.Is(err, slurm.ErrInvalid):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for a job with more room than Slurm job %d: %w", step.Job.ID, err)
	}
	klog.FromContext(ctx).Info("Another node has room", "workload", o.Group.Key.String(), "node", node, "job", step.Job.ID, "new", id)
	p.JobRequest, p.started = req, true
	_, err = s.asked(ctx, o.Group, pods, id, []planned{p}, nil)
	step.Reason = fmt.Sprintf("Slurm job %d, in its place, has nodes with more room", id)
	return true, errors.Join(err, s.cancel(ctx, o.Group.Key, step))
}

// roomCame gives a job back the time that its pods have waited for room.
func (s *Submitter) roomCame(ctx context.Context, job slurm.Job) {
	s.mu.Lock()
	w, waited := s.crowds[job.ID]
	delete(s.crowds, job.ID)
	s.mu.Unlock()
	limit, limited := job.TimeLimit.Get()
	lost := s.Now().Sub(w.since)
	if !waited || !limited || lost < longWait {
		return
	}
	req := slurm.JobRequest{TimeLimit: slurm.NumberOf(limit + uint64(lost/time.Minute) + 1)}
	if err := s.Slurm.UpdateJob(ctx, job.ID, req); err != nil {
		klog.FromContext(ctx).Error(err, "Can't give a job the time back that its pods waited for room", "job", job.ID, "waited", lost)
	}
}
