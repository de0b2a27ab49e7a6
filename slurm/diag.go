package slurm

import (
	"context"
	"time"
)

// Diag are statistics of slurmctld.
type Diag struct {
	// Time is when they were taken.
	Time time.Time
	// Since is when counting began: at slurmctld's start, and anew each midnight UTC. It
	// is zero within slurmctld's first second.
	Since time.Time
	// The first five count from Since on.
	JobsSubmitted, JobsStarted, JobsCompleted, JobsCanceled, JobsFailed uint64
	// JobsPending and JobsRunning are what slurmctld last counted; it does so every half a minute.
	JobsPending, JobsRunning uint64

	// ServerThreads is how many calls slurmctld was serving.
	ServerThreads uint64
	// AgentQueue and DBDAgentQueue are messages that wait to be sent to slurmd and slurmdbd.
	AgentQueue, DBDAgentQueue uint64

	// Schedule is the main scheduler; Backfill the one that looks ahead.
	Schedule, Backfill Cycles
	// ScheduleQueue is how many jobs waited in the last cycle of the main scheduler.
	ScheduleQueue uint64
	// BackfillActive tells whether a cycle of it was under way; BackfillTime is when the last one ended.
	BackfillActive bool
	BackfillTime   time.Time
	// BackfilledJobs were started by it since slurmctld's start.
	BackfilledJobs uint64
}

// Cycles says how long a scheduler takes for one look at the queue.
type Cycles struct{ Last, Mean, Max time.Duration }

// Statistics reads slurmctld's statistics.
type Statistics interface {
	Diag(ctx context.Context) (Diag, error)
}

// Ping is one controller's answer.
type Ping struct {
	Hostname string
	// Mode is "primary" or "backup" followed by a number.
	Mode       string
	Responding bool
	Primary    bool
	// Status is Slurm's sentence on a controller that doesn't respond; empty before Slurm 26.05.
	Status string
}

// License is a license that slurmctld counts.
type License struct {
	Name                        string
	Total, Used, Free, Reserved uint64
	// Remote licenses are served by the database for several clusters.
	Remote bool
}

// Licenses reads licenses.
type Licenses interface {
	Licenses(ctx context.Context) ([]License, error)
}
