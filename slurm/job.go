package slurm

import "time"

// Job is a job as slurmctld knows it. Times that Slurm doesn't know are zero.
type Job struct {
	ID uint32
	// SLUID identifies the job for ever. A job id alone doesn't: slurmctld hands
	// ids out again after a crash that lost the newest jobs.
	SLUID string

	Name, User, Group, Account, Partition, QOS, Reservation string
	UserID, GroupID                                         uint32
	// Cluster is the name of the Slurm cluster.
	Cluster string

	States States
	// Reason is Slurm's word for why a pending job waits or why it ended, as "Resources".
	Reason string
	// Description explains Reason where Slurm adds one.
	Description string

	// Nodes is a hostlist expression; empty while nothing is allocated.
	Nodes          string
	ScheduledNodes string
	NodeCount      Number
	CPUs           Number
	Tasks          Number
	Priority       Number
	// TimeLimit is in minutes.
	TimeLimit Number

	SubmitTime, EligibleTime, StartTime, EndTime time.Time
	// PreemptTime is when the job was told to make room for another; within its grace time it still runs.
	PreemptTime time.Time

	Flags                 []string
	Comment, AdminComment string
	Dependency            string
	Licenses              string
	TRESRequested         string
	TRESAllocated         string
	// ExitCode is the return code of the job's script; SignalID the signal that ended it, 0 for none.
	ExitCode Number
	SignalID uint32
	HetJobID Number
	// ArrayJobID and ArrayTaskID are set for a task of a job array that has a record of its own.
	ArrayJobID, ArrayTaskID Number
	// ArrayTasks are the tasks of an array that have none yet, as "2-9,12%3".
	ArrayTasks string

	// Asked is what the job asks of its nodes.
	Asked JobAsks
}

// JobAsks is what a job asks of its nodes. Their least number is in TRESRequested: NodeCount of a job that waits is a guess.
type JobAsks struct {
	// Constraints is an expression that package feature reads.
	Constraints string
	// RequiredNodes and ExcludedNodes are hostlist expressions.
	RequiredNodes, ExcludedNodes string
	// Exclusive asks for whole nodes. From v0.0.45 on Slurm tells it only of jobs that ask on the command line.
	Exclusive                   bool
	MaximumNodes                Number
	CPUsPerTask, TasksPerNode   Number
	MinimumCPUsPerNode          Number
	MemoryPerNode, MemoryPerCPU Number // in MiB
	TRESPerJob, TRESPerNode     string
	TRESPerSocket, TRESPerTask  string
}

// FlagExternalJob marks a job that only holds resources: no slurmd starts anything for it.
const FlagExternalJob = "EXTERNAL_JOB"

// JobState is the cheap summary that Slurm gives for all jobs at once.
type JobState struct {
	ID uint32
	// Part is "_" and the task for each task of a job array, whose ID is then the
	// array's, or "+" and the component for a heterogeneous job; else empty.
	Part   string
	States States
}

// JobRequest describes a job to submit or a change of one. Zero fields are left to Slurm.
type JobRequest struct {
	Name, Partition, Account, QOS, Reservation string
	Constraints, Licenses, WCKey, MCSLabel     string
	// UserID and GroupID are a name or a number; they need an administrator's token.
	UserID, GroupID string

	MinimumNodes, MaximumNodes uint32
	Tasks, TasksPerNode        uint32
	CPUsPerTask                uint32
	// MinimumCPUs is the least number of CPUs of the whole job. A change of Tasks must
	// bring it along: by itself Slurm then counts one CPU for each task.
	MinimumCPUs uint32
	// MemoryPerNode is in MiB. Unset and 0 both mean all memory of the node to Slurm.
	MemoryPerNode Number
	// MemoryPerCPU, in MiB, goes without MemoryPerNode: the memory then follows the tasks.
	MemoryPerCPU Number
	// TRESPerNode and TRESPerTask are TRES expressions such as "gres/gpu:h100:2".
	TRESPerNode, TRESPerTask string
	// FewestNodes asks for as few nodes as the tasks need; otherwise Slurm takes as many as it may.
	FewestNodes bool
	// TimeLimit is in minutes.
	TimeLimit Number
	Priority  Number
	Deadline  time.Time

	// ExcludedNodes of a job that waits are cleared by one empty name.
	RequiredNodes, ExcludedNodes []string
	// Exclusive asks for whole nodes.
	Exclusive bool
	// Distribution is a distribution expression such as "block:block".
	Distribution string

	Comment, AdminComment string
	WorkingDirectory      string
	Environment           []string

	// External asks for a job that only holds resources. It has no Script.
	External bool
	Script   string
}

// Allocation is what Slurm granted a running job.
type Allocation struct {
	JobID uint32
	// Nodes are in Slurm's own order.
	Nodes []NodeAllocation
}

// NodeAllocation is the part of an Allocation on one node.
type NodeAllocation struct {
	Node           string
	Sockets        int
	CoresPerSocket int
	// Cores are Slurm's abstract core numbers, ascending: socket*CoresPerSocket + core in socket.
	Cores []int
	// Memory is in MiB.
	Memory uint64
	GRES   []GRESAllocation
}

// GRESAllocation is a generic resource granted on one node.
type GRESAllocation struct {
	Name, Type string
	Count      uint64
	// Indexes are the device indexes within the name, ascending; empty where Slurm gives none.
	Indexes []int
}
