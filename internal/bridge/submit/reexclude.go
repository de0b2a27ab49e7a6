package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// lookAgain is how long after a change of the nodes the jobs that wait are looked at again:
// nodes often change several times in a row, and thousands of jobs may wait.
const lookAgain = 5 * time.Second

// setQueued notes whether a job of a workload waits in Slurm.
func (s *Submitter) setQueued(key workload.Key, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if queued {
		s.queued[key] = true
	} else {
		delete(s.queued, key)
	}
}

// retryQueued looks at the waiting jobs again, in a while.
func (s *Submitter) retryQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.queued {
		s.queue.AddAfter(key, lookAgain)
	}
}

// planned notes from which view of the nodes the exclusions of a job are, and tells whether that was known.
func (s *Submitter) planned(job uint32, view uint64) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had, ok := s.views[job]
	s.views[job] = view
	return ok && had == view
}

func (s *Submitter) forgetJob(id uint32, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, id)
	if ended {
		delete(s.crowds, id)
	}
}

// reexclude brings the exclusions of a job that waits up to date: a node that could not be used
// when it was submitted may be what it waits for, and one that could may be of no use any more.
// Jobs of several components keep theirs.
func (s *Submitter) reexclude(ctx context.Context, o workload.Observed, step workload.Step) error {
	nodes, err := s.nodes()
	if err != nil {
		return err
	}
	pods := append(slices.Clone(step.Pods), o.Group.Reserved...)
	mark, ours := workload.Owned(step.Job, s.Index.Cluster())
	if s.planned(step.Job.ID, nodes.number) || !ours || len(pods) != len(mark.Pods) || step.Job.HetJobID.Set {
		return nil
	}
	workload.ByRank(pods)
	req, why, err := s.request(ctx, o.Group, pods)
	if err != nil || why.reason != "" || req.parts != nil {
		return err // the job waits for what may come again
	}
	have, err := hostlist.Expand(step.Job.Asked.ExcludedNodes)
	if err != nil {
		return fmt.Errorf("excluded nodes of Slurm job %d: %w", step.Job.ID, err)
	}
	slices.Sort(have)
	change := slurm.JobRequest{ExcludedNodes: workload.Exclude(req.ExcludedNodes)}
	if workload.Bounds(req.JobRequest, mark) {
		change = workload.Change(req.JobRequest) // daemons leave less room for its pods on a node, or more
	} else if slices.Equal(have, req.ExcludedNodes) {
		return nil
	}
	err = s.Slurm.UpdateJob(ctx, step.Job.ID, change)
	var e *slurm.Error
	switch {
	case err == nil:
		klog.FromContext(ctx).Info("Other nodes suit the waiting job", "workload", o.Group.Key.String(), "job", step.Job.ID, "excluded", len(req.ExcludedNodes))
		return s.refresh(ctx, step.Job.ID)
	case errors.As(err, &e) && e.Code == noSuchNode:
		// Slurm changes nothing of a job whose list names a node that is gone: only a new one helps.
		step.Reason = "it names nodes that Slurm has no more"
		return s.cancel(ctx, o.Group.Key, step)
	case errors.Is(err, slurm.ErrInvalid), errors.Is(err, slurm.ErrNotFound):
		return s.refresh(ctx, step.Job.ID) // it has started or ended meanwhile
	}
	return fmt.Errorf("change the excluded nodes of Slurm job %d: %w", step.Job.ID, err)
}
