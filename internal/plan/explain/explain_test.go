package explain

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestWaiting(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, j := range map[string]slurm.Job{
		"Slurm job 7 waits": {ID: 7, States: slurm.StatesOf(slurm.JobPending)},
		"Slurm job 7 waits in partition p: no suitable nodes are free now (Resources); Slurm expects to start it at 2026-01-02T04:04:00Z": {
			ID: 7, Partition: "p", Reason: "Resources", StartTime: now.Add(time.Hour), States: slurm.StatesOf(slurm.JobPending)},
		"Slurm job 7 waits: jobs of higher priority wait for the same nodes (Priority); when it starts can't be told, as what runs before it has no time limit": { // a year is what Slurm takes "no limit" for
			ID: 7, Reason: "Priority", StartTime: now.Add(364 * 24 * time.Hour), States: slurm.StatesOf(slurm.JobPending)},
		"Slurm job 7 waits: Slurm's reason is SomethingNew": {ID: 7, Reason: "SomethingNew", StartTime: now.Add(-time.Hour)},
		"Slurm job 7 is suspended":                          {ID: 7, States: slurm.StatesOf(slurm.JobSuspended)},
		"Slurm job 7 has its nodes, which are being made ready": {
			ID: 7, States: slurm.StatesOf(slurm.JobRunning, slurm.JobConfiguring)},
	} {
		if got := Waiting(j, nil, now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestEnded(t *testing.T) {
	for want, states := range map[string]slurm.States{
		"Slurm job 7 was cancelled: SlurmCancelled":                             slurm.StatesOf(slurm.JobCancelled, slurm.JobCompleting),
		"Slurm job 7 reached its time limit: SlurmTimeLimit":                    slurm.StatesOf(slurm.JobTimeout),
		"Slurm job 7 was preempted by a job of higher priority: SlurmPreempted": slurm.StatesOf(slurm.JobPreempted),
		"Slurm job 7 lost a node: SlurmNodeFail":                                slurm.StatesOf(slurm.JobNodeFail),
		"Slurm job 7 completed: SlurmJobEnded":                                  slurm.StatesOf(slurm.JobCompleted),
		"Slurm job 7 ended in state REVOKED: SlurmJobEnded":                     slurm.StatesOf("REVOKED"),
	} {
		j := slurm.Job{ID: 7, States: states, Reason: "None"}
		if got := Ended(j) + ": " + EndReason(j); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", &slurm.Error{Kind: slurm.ErrInvalid, Op: "submit", Code: 2000, Text: "Invalid partition name specified"})
	for want, err := range map[string]error{
		"Slurm refuses the job: Invalid partition name specified (error 2000)": err,
		"Slurm refuses the job: plain":                                         errors.New("plain"),
	} {
		if got := Refused(err); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
