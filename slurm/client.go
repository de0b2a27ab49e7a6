package slurm

import "context"

// Jobs reads and writes jobs. All methods return errors of this package's kinds (see Error).
type Jobs interface {
	// Jobs returns all jobs with details. It is expensive: prefer JobStates, and Job for what changed.
	Jobs(ctx context.Context) ([]Job, error)
	// JobStates returns id and state of all jobs.
	JobStates(ctx context.Context) ([]JobState, error)
	Job(ctx context.Context, id uint32) (Job, error)
	// Allocation returns what a running job was granted.
	Allocation(ctx context.Context, id uint32) (Allocation, error)
	// Submit queues a job and returns its id.
	Submit(ctx context.Context, req JobRequest) (uint32, error)
	// AllocateNow starts an external job at once or fails with ErrBusy. Then only the
	// record of a failed job is left behind, as long as Slurm keeps those. It is the
	// caller's own job: one of another user or group is refused with ErrInvalid.
	AllocateNow(ctx context.Context, req JobRequest) (uint32, error)
	UpdateJob(ctx context.Context, id uint32, req JobRequest) error
	// CancelJobs cancels jobs in one call. Jobs that have ended or are unknown are no error.
	CancelJobs(ctx context.Context, ids ...uint32) error
}

// Nodes reads and writes nodes.
type Nodes interface {
	Nodes(ctx context.Context) ([]Node, error)
	Node(ctx context.Context, name string) (Node, error)
	CreateNode(ctx context.Context, n NodeCreate) error
	UpdateNode(ctx context.Context, name string, u NodeUpdate) error
	DeleteNode(ctx context.Context, name string) error
}

// Client is what most programs need of one Slurm cluster, acting as one user. A
// rest.Client also is a Reservations, Accounting, Statistics and Licenses.
type Client interface {
	Jobs
	Nodes
	Partitions(ctx context.Context) ([]Partition, error)
	// Ping tells whether slurmctld answers, and under which name.
	Ping(ctx context.Context) ([]Ping, error)
	// Reconfigure makes slurmctld read its configuration again.
	Reconfigure(ctx context.Context) error
}
