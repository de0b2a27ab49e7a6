// Package explain says in plain words why a pod waits or ended, from what Slurm
// knows about its job. It is pure.
package explain

import (
	"fmt"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// reasons are Slurm's words for why a job waits, in ours.
var reasons = map[string]string{
	"None":                     "Slurm has not looked at it yet",
	"Priority":                 "jobs of higher priority wait for the same nodes",
	"Resources":                "no suitable nodes are free now",
	"Dependency":               "it depends on a job that has not ended",
	"DependencyNeverSatisfied": "it depends on a job that can't end as asked, so it never starts",
	"BeginTime":                "its begin time has not come",
	"Licenses":                 "its licenses are in use",
	"Reservation":              "its reservation has not begun or is full",
	"ReservationDeleted":       "its reservation was deleted",
	"JobArrayTaskLimit":        "as many of its array's tasks run as it allows",
	"External":                 "it only holds resources and needs no worker",
	"InvalidAccount":           "its account is not valid",
	"InvalidQOS":               "its QOS is not valid",
	"PartitionDown":            "its partition is down",
	"PartitionInactive":        "its partition takes no jobs to start",
	"PartitionNodeLimit":       "it asks for more nodes than its partition has or allows",
	"PartitionTimeLimit":       "its time limit is longer than its partition allows",
	"PartitionConfig":          "no node of its partition can ever satisfy it",
	"BadConstraints":           "no node can ever satisfy it",
	"ReqNodeNotAvail":          "a node that it needs is down, drained or reserved",
	"NodeDown":                 "a node that it needs is down",
	"JobHeldAdmin":             "an administrator holds it",
	"JobHeldUser":              "its user holds it",
	"NodesNotAvail":            "nodes that it needs are not available",
	"FrontEndDown":             "no front end node is up",
	"DeadLine":                 "it can't end before its deadline",
	"AccountNotAllowed":        "its account may not use the partition",
	"QOSNotAllowed":            "its QOS may not be used in the partition",
	"BurstBufferResources":     "its burst buffer has no room",
	"SchedDefer":               "Slurm tries it at its next scheduling pass",
}

// Waiting is one sentence on a job that has not started, for people who may not
// know of others' jobs more than their numbers. A queue of nil explains less. The
// expected start is in whole minutes, as it moves all the time.
func Waiting(j slurm.Job, q *Queue, now time.Time) string {
	s := fmt.Sprintf("Slurm job %d", j.ID)
	switch {
	case j.States.Has(slurm.JobSuspended):
		return s + " is suspended"
	case j.States.Has(slurm.JobConfiguring):
		return s + " has its nodes, which are being made ready"
	}
	s += " waits"
	if j.Partition != "" {
		s += " in partition " + j.Partition
	}
	if q != nil {
		if place, of := q.Position(j); place > 0 {
			s += fmt.Sprintf(", place %d of %d", place, of)
		}
	}
	if j.Reason != "" {
		s += ": " + reasonOf(j)
	}
	if q != nil {
		s += clause(Blocking(j, q, blockersTold))
	}
	switch start, open := q.Expected(j, now); {
	case open:
		s += "; when it starts can't be told, as what runs before it has no time limit"
	case !start.IsZero():
		s += "; Slurm expects to start it at " + j.StartTime.UTC().Truncate(time.Minute).Format(time.RFC3339)
	}
	return s
}

// openEnded is from where on an expected start is no forecast: Slurm takes a job
// without a time limit for one that ends after a year.
const openEnded = 300 * 24 * time.Hour

// endlessLasts is how long Slurm takes a job without a time limit to run, from its start.
const endlessLasts = 365 * 24 * time.Hour

// Expected is when Slurm expects to start a job, the zero time where it doesn't know. open
// is set where it can't: the job is planned behind one that has no time limit, whose end
// Slurm has made up.
func (q *Queue) Expected(j slurm.Job, now time.Time) (start time.Time, open bool) {
	if !j.StartTime.After(now) {
		return time.Time{}, false
	}
	open = j.StartTime.Sub(now) > openEnded
	if q != nil {
		for _, p := range partitions(j) {
			end, endless := q.endless[p]
			open = open || endless && !j.StartTime.Before(end)
		}
	}
	if open {
		return time.Time{}, true
	}
	return j.StartTime, false
}

// reasonOf is why a job waits, with the account or QOS whose limit it is.
func reasonOf(j slurm.Job) string {
	if l := limitOf(j); l != nil {
		return fmt.Sprintf("%s (%s)", l, j.Reason)
	}
	return Reason(j.Reason)
}

// Reason returns Slurm's word for why a job waits in plain words, with the word itself, by which its manual can be searched.
func Reason(word string) string {
	text, ok := reasons[firstWord(word)]
	if l := limitOf(slurm.Job{Reason: word}); l != nil {
		text, ok = l.String(), true
	}
	if !ok {
		return "Slurm's reason is " + word
	}
	return fmt.Sprintf("%s (%s)", text, word)
}

// ReasonOf is why a job waits, in plain words, with the account or QOS whose limit it is;
// "" where Slurm gives no reason.
func ReasonOf(j slurm.Job) string {
	if j.Reason == "" {
		return ""
	}
	return reasonOf(j)
}
