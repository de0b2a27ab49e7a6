package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Reasons of the pod condition and of events.
const (
	reasonMembers   = "WaitingForMembers"
	reasonQueued    = "QueuedInSlurm"
	reasonNoNode    = "NoUsableNode"
	reasonInvalid   = "InvalidJob"
	reasonRefused   = "RefusedBySlurm"
	reasonAway      = "SlurmUnavailable"
	reasonEnded     = "SlurmJobEnded"
	reasonNoPlace   = "CannotPlace"
	reasonClaims    = "WaitingForClaims"
	reasonNoDevices = "DevicesNotAllocated"
	reasonOccupied  = "NodeStillOccupied"
	reasonAllocated = "Allocated"
	reasonIgnored   = "IgnoredAnnotations"
	reasonAlone     = "TakenAlone"
)

func (s *Submitter) act(ctx context.Context, o workload.Observed, step workload.Step) (time.Duration, error) {
	switch step.Kind {
	case workload.StepWait:
		again, err := s.hold(ctx, step.Pods, held{reason: reasonMembers, text: step.Reason})
		if o.Group.UID == "" && again == 0 {
			again = ownerTTL // no event tells of every kind of owner
		}
		return again, err
	case workload.StepQueued:
		again, err := s.holdFor(ctx, step.Job, step.Pods, held{reason: reasonQueued, text: s.waiting(step.Job), word: step.Job.Reason})
		return again, errors.Join(err, s.reexclude(ctx, o, step))
	case workload.StepCancel:
		return 0, s.cancel(ctx, o.Group.Key, step)
	case workload.StepRejoin:
		return 0, s.rejoin(ctx, step)
	case workload.StepUpdate:
		return s.update(ctx, o, step)
	case workload.StepPlace:
		return s.place(ctx, o, step)
	case workload.StepSubmit:
		return s.submit(ctx, o, step)
	}
	return 0, fmt.Errorf("unknown step %q", step.Kind)
}

func (s *Submitter) cancel(ctx context.Context, key workload.Key, step workload.Step) error {
	klog.FromContext(ctx).Info("Cancel a Slurm job", "workload", key.String(), "job", step.Job.ID, "why", step.Reason)
	for _, pod := range step.Pods {
		s.Table.Hold(pod.UID, step.Reason)
		if pod.Spec.NodeName == "" {
			s.vacate(pod.UID)
		}
	}
	if err := s.Slurm.CancelJobs(ctx, step.Job.ID); err != nil {
		return fmt.Errorf("cancel Slurm job %d, of which %s: %w", step.Job.ID, step.Reason, err)
	}
	return s.refresh(ctx, step.Job.ID)
}

func (s *Submitter) rejoin(ctx context.Context, step workload.Step) error {
	comment := workload.Rejoined(step.Job, step.Mark, step.Pods)
	if err := s.Slurm.UpdateJob(ctx, step.Job.ID, slurm.JobRequest{AdminComment: comment}); err != nil {
		return fmt.Errorf("let pods %s join Slurm job %d: %w", workload.Names(step.Pods), step.Job.ID, err)
	}
	return s.refresh(ctx, step.Job.ID)
}

// refresh reads a job that a call has just changed, so that nobody has to wait for the next poll.
func (s *Submitter) refresh(ctx context.Context, id uint32) error {
	return s.refreshBy(ctx, s.View.RefreshJob, id)
}

func (s *Submitter) refreshBy(ctx context.Context, read func(context.Context, uint32) (bool, error), id uint32) error {
	if _, err := read(ctx, id); err != nil {
		return fmt.Errorf("read Slurm job %d again: %w", id, err)
	}
	s.JobChanged(id)
	return nil
}

// submit asks Slurm for a job for the pods: at once if nodes are free, else queued.
func (s *Submitter) submit(ctx context.Context, o workload.Observed, step workload.Step) (time.Duration, error) {
	key, pods := o.Group.Key, step.Pods
	if last, wait := workload.ResubmitAfter(o, pods, s.Now()); wait > 0 {
		text := explain.Ended(last) + " before the pod started; a new job follows"
		_, err := s.hold(ctx, pods, held{reason: reasonEnded, text: text, warn: true})
		return wait, err
	}
	g := jobGroup(o.Group, step)
	if len(pods) > step.Least {
		// All of them now, or those that must.
		id, reqs, err := s.askAll(ctx, g, pods)
		if err != nil || id != 0 {
			return s.asked(ctx, o.Group, pods, id, reqs, err)
		}
		pods = pods[:step.Least:step.Least]
	}
	reqs, why, err := s.requests(ctx, g, append(slices.Clone(pods), g.Reserved...))
	s.setBlocked(key, why.blocks())
	switch {
	case err != nil:
		return 0, err
	case why.blocks():
		_, err := s.hold(ctx, pods, why)
		return 30 * time.Second, err
	case why.reason != "":
		return s.hold(ctx, pods, why)
	}
	id, err := s.ask(ctx, reqs)
	if len(reqs) > 1 && errors.Is(err, slurm.ErrInvalid) {
		// Before 26.05, Slurm takes no external job of several components.
		klog.FromContext(ctx).Info("Slurm refuses a heterogeneous job; ask for the greatest need on all nodes", "workload", key.String(), "why", err.Error())
		id, reqs, err = s.askAlike(ctx, g, append(slices.Clone(pods), g.Reserved...), err)
	}
	return s.asked(ctx, o.Group, pods, id, reqs, err)
}

// jobGroup is a group as the job of a step has it: what the members must have in
// sum counts for the job that they start with, not for those of later ones.
func jobGroup(g workload.Group, step workload.Step) workload.Group {
	if step.Extra {
		g.MinResources = nil
	}
	return g
}

// asked goes on after Slurm was asked for a job.
func (s *Submitter) asked(ctx context.Context, g workload.Group, pods []*corev1.Pod, id uint32, reqs []planned, err error) (time.Duration, error) {
	key := g.Key
	s.Counts.Asked(err)
	if err != nil {
		return s.refused(ctx, key, pods, err)
	}
	s.Counts.Taken(s.Now().Sub(pods[0].CreationTimestamp.Time))
	klog.FromContext(ctx).Info("Slurm took the job", "workload", key.String(), "job", id, "pods", workload.Names(pods))
	s.warnIgnored(g, pods[0])
	read := s.View.RefreshJob
	if reqs[0].started {
		read = s.View.RefreshStarted
	}
	if err := s.refreshBy(ctx, read, id); err != nil {
		s.setUncertain(key)
		return 0, err
	}
	// The components of a heterogeneous job have ids that follow each other.
	for i, req := range reqs {
		s.planned(id+uint32(i), req.view)
		s.JobChanged(id + uint32(i))
		if j, ours := s.Index.Get(id + uint32(i)); !ours || j.AdminComment != req.AdminComment {
			// The id is somebody else's by now: slurmctld lost the job.
			s.setUncertain(key)
			return 0, fmt.Errorf("Slurm job %d is no longer the one that was submitted for %s", id, key)
		}
	}
	return 0, nil
}

// warnIgnored tells of annotations that were meant for the job but have no effect.
func (s *Submitter) warnIgnored(g workload.Group, pod *corev1.Pod) {
	if g.Note != "" {
		s.event(pod, held{reason: reasonAlone, warn: true, text: g.Note})
	}
	settings, _ := workload.ParseAnnotations(g.Annotations)
	if len(settings.Ignored) == 0 {
		return
	}
	s.event(pod, held{reason: reasonIgnored, warn: true, text: fmt.Sprintf(
		"these annotations have no effect, because job annotations are known ones with the prefix %s: %s",
		v1beta1.JobAnnotationPrefix, strings.Join(settings.Ignored, ", "))})
}

// noSuchNode is Slurm's error for a request that names a node which it doesn't have.
const noSuchNode = 2018

// refused tells the pods that Slurm took no job, and decides when to ask again.
func (s *Submitter) refused(ctx context.Context, key workload.Key, pods []*corev1.Pod, err error) (time.Duration, error) {
	var e *slurm.Error
	switch {
	case errors.As(err, &e) && e.Code == noSuchNode:
		// A node that the job excludes has just left Slurm. The next reading of nodes shows it.
		_, holdErr := s.hold(ctx, pods, held{reason: reasonAway, text: "the nodes of Slurm are changing"})
		return time.Second, holdErr
	case errors.Is(err, slurm.ErrInvalid), errors.Is(err, slurm.ErrNotFound):
		// Only a change of Slurm's configuration helps: look again at leisure.
		_, holdErr := s.hold(ctx, pods, held{reason: reasonRefused, text: explain.Refused(err), warn: true})
		return time.Minute, holdErr
	case errors.Is(err, slurm.ErrUnavailable):
		// The job may exist although no answer came. The next full reading of jobs tells.
		s.setUncertain(key)
	}
	_, holdErr := s.hold(ctx, pods, held{reason: reasonAway, text: explain.Unavailable(err)})
	return 0, errors.Join(err, holdErr)
}
