package explain

import (
	"fmt"
	"time"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

var ends = []struct{ state, text string }{
	{slurm.JobTimeout, "reached its time limit"},
	{slurm.JobPreempted, "was preempted by a job of higher priority"},
	{slurm.JobNodeFail, "lost a node"},
	{slurm.JobDeadline, "missed its deadline"},
	{slurm.JobOutOfMemory, "ran out of memory"},
	{slurm.JobBootFail, "ended because a node didn't boot"},
	{slurm.JobCancelled, "was cancelled"},
	{slurm.JobFailed, "failed"},
	{slurm.JobCompleted, "completed"},
}

// Ended is one sentence on a job that has ended.
func Ended(j slurm.Job) string {
	s := fmt.Sprintf("Slurm job %d ended in state %s", j.ID, j.States)
	for _, e := range ends {
		if j.States.Has(e.state) {
			s = fmt.Sprintf("Slurm job %d %s", j.ID, e.text)
			break
		}
	}
	if j.Reason != "" && j.Reason != "None" {
		s += " (" + j.Reason + ")"
	}
	return s
}

// EndReason is one word for a job's end, for the reason of an event or condition.
func EndReason(j slurm.Job) string {
	words := map[string]string{
		slurm.JobTimeout: v1beta1.ReasonSlurmTimeLimit, slurm.JobPreempted: v1beta1.ReasonSlurmPreempted, slurm.JobNodeFail: v1beta1.ReasonSlurmNodeFail,
		slurm.JobDeadline: v1beta1.ReasonSlurmDeadline, slurm.JobOutOfMemory: v1beta1.ReasonSlurmOutOfMemory, slurm.JobCancelled: v1beta1.ReasonSlurmCancelled,
	}
	for _, e := range ends {
		if w := words[e.state]; w != "" && j.States.Has(e.state) {
			return w
		}
	}
	return v1beta1.ReasonSlurmJobEnded
}

// FateReason is one word for why a pod that has its node must end, for its condition DisruptionTarget and its events.
func FateReason(f workload.Fate) string {
	switch f.Kind {
	case workload.FatePreempted:
		return v1beta1.ReasonSlurmPreempted
	case workload.FateSuspended:
		return v1beta1.ReasonSlurmSuspended
	case workload.FateMoved:
		return v1beta1.ReasonSlurmAllocationLost
	}
	return EndReason(f.Job)
}

// Fate is one sentence on why a pod that has its node must end.
func Fate(f workload.Fate) string {
	switch f.Kind {
	case workload.FatePreempted:
		s := fmt.Sprintf("Slurm job %d has to make room for a job of higher priority", f.Job.ID)
		if !f.By.IsZero() {
			s += " by " + f.By.UTC().Format(time.RFC3339)
		}
		return s
	case workload.FateSuspended:
		return fmt.Sprintf("Slurm job %d is suspended: Slurm gives its cores to others, and a pod can't be stopped for a while", f.Job.ID)
	case workload.FateMoved:
		if f.Job.States.Has(slurm.JobPending) {
			return fmt.Sprintf("Slurm job %d waits again: slurmctld forgot what it had given to it", f.Job.ID)
		}
		return fmt.Sprintf("Slurm job %d holds %s, where the pod is not: slurmctld forgot what it had given to it", f.Job.ID, f.Job.Nodes)
	}
	return Ended(f.Job)
}
