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

	// JobsTime is when that was.
	JobsTime time.Time

	// ServerThreads is how many calls slurmctld was serving.
	ServerThreads uint64
	// Agents send messages to slurmd, with AgentThreads in all. AgentQueue and DBDAgentQueue
	// are messages that wait to be sent to slurmd and slurmdbd.
	Agents, AgentThreads, AgentQueue, DBDAgentQueue uint64
	// ClockLatency is how long 1,000 readings of the clock take: a measure of the host's load.
	ClockLatency time.Duration

	// Schedule is the main scheduler; Backfill the one that looks ahead.
	Schedule, Backfill Cycles
	// BackfillActive tells whether a cycle of it was under way; BackfillTime is when the last one ended.
	BackfillActive bool
	BackfillTime   time.Time
	// BackfilledJobs were started by it since slurmctld's start, BackfilledLately of them since
	// Since. BackfilledHetJobs are components of heterogeneous jobs.
	BackfilledJobs, BackfilledLately, BackfilledHetJobs uint64

	// CallsByType and CallsByUser are the calls that slurmctld has served since Since.
	CallsByType, CallsByUser []Calls
}

// Cycles says how a scheduler's looks at the queue went since Diag.Since. What a scheduler
// doesn't count is zero: the main one has no Tried, Table and LastDepth.
type Cycles struct {
	Count                uint64
	Last, Mean, Max, Sum time.Duration
	// Depth are the jobs looked at, Tried those of them that were tried to be started.
	Depth, Tried Measure
	// Queue are the jobs that waited, Table the time slots that were tested.
	Queue, Table Measure
	// Ends counts why cycles ended, by Slurm's words, such as "end_job_queue".
	Ends map[string]uint64
}

// Measure is a number taken once a cycle.
type Measure struct{ Last, Mean, Sum uint64 }

// Calls are remote procedure calls of one type, such as "REQUEST_PING", or of one user.
type Calls struct {
	Name string
	// UserID is set of a user's calls.
	UserID uint32
	Count  uint64
	// Queued and Dropped are calls of a type that slurmctld put off and refused for its load.
	Queued, Dropped uint64
	// Time is what slurmctld spent on them.
	Time time.Duration
}

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

// Share is an account's or a user's part of the cluster, as slurmctld last reckoned it.
type Share struct {
	// User tells that it is a user's share of the account Parent; else Name is an account below Parent.
	User         bool
	Name, Parent string
	// Partition is set of a share that holds in one partition only.
	Partition, Cluster string
	// Shares is what was given among siblings, and infinite where the share is the parent's own.
	Shares Number
	// Normalized is its part of what its siblings have together, from 0 to 1.
	Normalized *float64
	// Usage is what was used, in billing seconds that fade with time, EffectiveUsage its part of
	// what its siblings used together, from 0 to 1.
	Usage          uint64
	EffectiveUsage *float64
	// Factor is a user's fair-share factor, from 0 to 1: the more the better. Level is the fair-tree
	// level: above 1 less was used than given; nil where that is infinite, as nothing was used.
	Factor, Level *float64
}

// Shares reads shares. Without accounting there are none.
type Shares interface {
	Shares(ctx context.Context) ([]Share, error)
}
