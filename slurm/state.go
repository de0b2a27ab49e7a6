package slurm

import (
	"slices"
	"strings"
)

// States is a set of Slurm state words, upper case, sorted, without repeats: a
// base state and its flags, as in {ALLOCATED, DRAIN}. Build it with StatesOf.
type States []string

// StatesOf returns the set of the given words.
func StatesOf(words ...string) States {
	s := make(States, 0, len(words))
	for _, w := range words {
		if w != "" {
			s = append(s, strings.ToUpper(w))
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// Has tells whether all of words are in the set.
func (s States) Has(words ...string) bool {
	for _, w := range words {
		if _, ok := slices.BinarySearch(s, w); !ok {
			return false
		}
	}
	return true
}

// HasAny tells whether at least one of words is in the set.
func (s States) HasAny(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return s.Has(w) })
}

func (s States) String() string { return strings.Join(s, "+") }

// Job state words, as slurmrestd spells them (squeue(1), JOB STATE CODES).
const (
	JobPending     = "PENDING"
	JobRunning     = "RUNNING"
	JobSuspended   = "SUSPENDED"
	JobCompleted   = "COMPLETED"
	JobCancelled   = "CANCELLED"
	JobFailed      = "FAILED"
	JobTimeout     = "TIMEOUT"
	JobNodeFail    = "NODE_FAIL"
	JobPreempted   = "PREEMPTED"
	JobBootFail    = "BOOT_FAIL"
	JobDeadline    = "DEADLINE"
	JobOutOfMemory = "OUT_OF_MEMORY"
	JobCompleting  = "COMPLETING"
	JobConfiguring = "CONFIGURING"
)

// Node state words, as slurmrestd spells them (sinfo(1), NODE STATE CODES).
const (
	NodeIdle          = "IDLE"
	NodeAllocated     = "ALLOCATED"
	NodeMixed         = "MIXED"
	NodeDown          = "DOWN"
	NodeDrain         = "DRAIN"
	NodeExternal      = "EXTERNAL"
	NodeCloud         = "CLOUD"
	NodeCompleting    = "COMPLETING"
	NodeNotResponding = "NOT_RESPONDING"
	NodeUnknown       = "UNKNOWN"
	NodeReserved      = "RESERVED"
	NodeFail          = "FAIL"
	NodeDynamicNorm   = "DYNAMIC_NORM"
	NodeError         = "ERROR"
	NodeFuture        = "FUTURE"
	NodeInvalid       = "INVALID"
	NodeInvalidReg    = "INVALID_REG"
	NodeMaintenance   = "MAINTENANCE"
	NodeUndrain       = "UNDRAIN"
)

// JobEnded tells whether a job with these states has ended for good.
func (s States) JobEnded() bool {
	return s.HasAny(JobCompleted, JobCancelled, JobFailed, JobTimeout, JobNodeFail,
		JobPreempted, JobBootFail, JobDeadline, JobOutOfMemory)
}
