// Package placement gets a workload its external job: at once where there is
// room, else queued, and never two of them.
package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/slinky-hpc/slinky/slurm"
)

// Jobs is what placing needs of Slurm; slurm.Client has it.
type Jobs interface {
	Jobs(ctx context.Context) ([]slurm.Job, error)
	Job(ctx context.Context, id uint32) (slurm.Job, error)
	Allocation(ctx context.Context, id uint32) (slurm.Allocation, error)
	AllocateNow(ctx context.Context, req slurm.JobRequest) (uint32, error)
	Submit(ctx context.Context, req slurm.JobRequest) (uint32, error)
	CancelJobs(ctx context.Context, ids ...uint32) error
}

// Request is one workload that wants a job.
type Request struct {
	// Job must be external. Its AdminComment carries the workload's UID: by it the job is
	// known again, whoever asks.
	Job slurm.JobRequest
	// Find returns the jobs that were made for this workload before; ended ones may be among
	// them. It must not answer from a view that is older than the call. Nil: all jobs are
	// listed, and those with the same AdminComment count, which is expensive with many jobs.
	Find func(ctx context.Context) ([]slurm.Job, error)
	// New says that no job was ever asked for this workload, so that none needs to be looked for.
	New bool
	// Queue says that other jobs wait for the same nodes, so that trying an immediate
	// start is in vain. slurmctld keeps a record of each such try.
	Queue bool
}

// State says what became of a request.
type State string

// The states of a Placement.
const (
	// Running: the job holds its nodes.
	Running State = "Running"
	// Queued: the job waits.
	Queued State = "Queued"
	// Refused: Slurm took no job, and won't take this one until something changes.
	Refused State = "Refused"
	// Ended: the job has ended already, for instance because it was cancelled meanwhile.
	Ended State = "Ended"
)

// Placement is the outcome.
type Placement struct {
	State State
	// Job is the job as last read; empty if Refused.
	Job slurm.Job
	// Allocation is what the job holds, if Running.
	Allocation slurm.Allocation
	// Found tells that the job was there before this call.
	Found bool
	// Refusal is why Slurm refused, a *slurm.Error.
	Refusal error
}

// Reason is Slurm's own word or sentence for why nothing runs; empty if Running.
func (p Placement) Reason() string {
	var e *slurm.Error
	switch {
	case errors.As(p.Refusal, &e) && e.Text != "":
		return e.Text
	case p.Refusal != nil:
		return p.Refusal.Error()
	case p.State == Running:
		return ""
	}
	return cmp.Or(p.Job.Description, p.Job.Reason)
}

// Place gets the workload a job. It never blocks on resources: slurmctld starts the job
// at once, or it is queued. It may be called again at any time with the same request,
// after an error above all: a job that exists is found and not made twice; should there
// be several, the oldest stays and the others are cancelled.
//
// After an error that is slurm.ErrUnavailable it isn't known whether there is a job: call
// again, and not with New.
func Place(ctx context.Context, jobs Jobs, r Request) (Placement, error) {
	if !r.Job.External || r.Job.AdminComment == "" {
		return Placement{}, fmt.Errorf("place job %q: %w: it must be external and have the workload's UID in its AdminComment", r.Job.Name, slurm.ErrInvalid)
	}
	if !r.New {
		if p, found, err := find(ctx, jobs, r); found || err != nil {
			return p, err
		}
	}
	id, err := ask(ctx, jobs, r)
	switch {
	case err == nil:
		return look(ctx, jobs, id)
	case errors.Is(err, slurm.ErrUnavailable):
		// The answer was lost, the job perhaps not.
		if p, found, findErr := find(ctx, jobs, r); found && findErr == nil {
			return p, nil
		}
		return Placement{}, err
	case errors.Is(err, slurm.ErrInvalid), errors.Is(err, slurm.ErrNotFound):
		return Placement{State: Refused, Refusal: err}, nil
	}
	return Placement{}, err
}

// ask makes a job and returns its id.
func ask(ctx context.Context, jobs Jobs, r Request) (uint32, error) {
	if !r.Queue {
		id, err := jobs.AllocateNow(ctx, r.Job)
		if !errors.Is(err, slurm.ErrBusy) && !errors.Is(err, slurm.ErrInvalid) {
			return id, err
		}
		// What can't start now may be queued; what can't be at all is refused once more,
		// and then slurmctld says why.
	}
	return jobs.Submit(ctx, r.Job)
}

// find looks for the workload's job. Without one that lives, found is false.
func find(ctx context.Context, jobs Jobs, r Request) (p Placement, found bool, err error) {
	list := r.Find
	if list == nil {
		list = jobs.Jobs
	}
	all, err := list(ctx)
	if err != nil {
		return p, false, fmt.Errorf("look for an earlier job of %q: %w", r.Job.Name, err)
	}
	live := slices.DeleteFunc(slices.Clone(all), func(j slurm.Job) bool {
		return j.States.JobEnded() || r.Find == nil && j.AdminComment != r.Job.AdminComment
	})
	if len(live) == 0 {
		return p, false, nil
	}
	// A request that was under way for long makes a younger job than the one that was handed
	// out meanwhile. And whoever else looks now chooses the same one.
	slices.SortFunc(live, func(a, b slurm.Job) int {
		return cmp.Or(a.SubmitTime.Compare(b.SubmitTime), cmp.Compare(a.ID, b.ID))
	})
	var surplus []uint32
	for _, j := range live[1:] {
		surplus = append(surplus, j.ID)
	}
	if len(surplus) > 0 {
		if err := jobs.CancelJobs(ctx, surplus...); err != nil {
			return p, false, fmt.Errorf("cancel surplus jobs of %q: %w", r.Job.Name, err)
		}
	}
	p, err = look(ctx, jobs, live[0].ID)
	p.Found = true
	return p, true, err
}

func running(j slurm.Job) bool { return j.States.HasAny(slurm.JobRunning, slurm.JobSuspended) }

// look reads a job and its allocation, both at once as it mostly runs.
func look(ctx context.Context, jobs Jobs, id uint32) (Placement, error) {
	var a slurm.Allocation
	var allocationErr error
	var wg sync.WaitGroup
	wg.Go(func() { a, allocationErr = jobs.Allocation(ctx, id) })
	job, err := jobs.Job(ctx, id)
	wg.Wait()
	p := Placement{State: Queued, Job: job}
	switch {
	case err != nil:
		return Placement{}, fmt.Errorf("read the job just made: %w", err)
	case job.States.JobEnded():
		p.State = Ended
	case running(job):
		if allocationErr != nil {
			// It may have started between the two answers.
			if a, err = jobs.Allocation(ctx, id); err != nil {
				return Placement{}, fmt.Errorf("read what the job just made was allocated: %w", err)
			}
		}
		p.State, p.Allocation = Running, a
	}
	return p, nil
}

// cancelAtOnce bounds one call to cancel: slurmctld holds its locks meanwhile.
const cancelAtOnce = 1000

// Cancel cancels jobs in as few calls as is good for slurmctld. It sends no signal that
// external jobs' nodes would have to take. Jobs that have ended or are unknown are no error.
func Cancel(ctx context.Context, jobs Jobs, ids ...uint32) error {
	for chunk := range slices.Chunk(ids, cancelAtOnce) {
		if err := jobs.CancelJobs(ctx, chunk...); err != nil {
			return err
		}
	}
	return nil
}
