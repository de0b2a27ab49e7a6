// Package explain says in plain words why a pod waits or ended, from what Slurm
// knows about its job. It is pure.
package explain

import (
	"errors"
	"fmt"
	"strings"
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
	"AssociationJobLimit":      "its account has reached its limit of jobs",
	"AssociationResourceLimit": "its account has reached a limit of resources",
	"AssociationTimeLimit":     "its account has used its time",
	"QOSJobLimit":              "its QOS has reached its limit of jobs",
	"QOSResourceLimit":         "its QOS has reached a limit of resources",
	"QOSTimeLimit":             "its QOS has used its time",
	"MaxJobsPerAccount":        "its account has reached its limit of running jobs",
	"AssocMaxJobsLimit":        "its account has reached its limit of running jobs",
	"AssocGrpCpuLimit":         "its account has reached its limit of CPUs",
	"AssocGrpMemLimit":         "its account has reached its limit of memory",
	"QOSMaxJobsPerUserLimit":   "its user has reached the limit of running jobs of the QOS",
	"QOSMaxCpuPerUserLimit":    "its user has reached the limit of CPUs of the QOS",
	"QOSGrpCpuLimit":           "its QOS has reached its limit of CPUs",
	"MaxCpuPerAccount":         "its account has reached its limit of CPUs",
	"NodesNotAvail":            "nodes that it needs are not available",
	"FrontEndDown":             "no front end node is up",
	"DeadLine":                 "it can't end before its deadline",
	"AccountNotAllowed":        "its account may not use the partition",
	"QOSNotAllowed":            "its QOS may not be used in the partition",
	"BurstBufferResources":     "its burst buffer has no room",
	"SchedDefer":               "Slurm tries it at its next scheduling pass",
}

// Waiting is one sentence on a job that has not started.
func Waiting(j slurm.Job, now time.Time) string {
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
	if j.Reason != "" {
		s += ": " + Reason(j.Reason)
	}
	if j.StartTime.After(now) {
		s += "; Slurm expects to start it at " + j.StartTime.UTC().Format(time.RFC3339)
	}
	return s
}

// Reason returns Slurm's word for why a job waits in plain words, with the word itself, by which its manual can be searched.
func Reason(word string) string {
	first, _, _ := strings.Cut(word, ",")
	text, ok := reasons[strings.TrimSpace(first)]
	if !ok {
		return "Slurm's reason is " + word
	}
	return fmt.Sprintf("%s (%s)", text, word)
}

// Refused is one sentence on a request that Slurm didn't take.
func Refused(err error) string {
	var e *slurm.Error
	if errors.As(err, &e) && e.Text != "" {
		if e.Code != 0 {
			return fmt.Sprintf("Slurm refuses the job: %s (error %d)", e.Text, e.Code)
		}
		return "Slurm refuses the job: " + e.Text
	}
	return "Slurm refuses the job: " + err.Error()
}
