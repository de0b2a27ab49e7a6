// Package demand plans how many workers each NodeSet needs for the jobs that wait, and says why.
// It is pure: jobs, nodes, limits and the time are arguments.
//
// Jobs are placed as Slurm would, by priority, first on what is free or on its way, then on workers
// that would have to be added. It counts nodes, CPUs, memory, generic resources, features and named
// nodes. It knows nothing of topology, licences and sockets: at worst a worker is added that a job
// can't use yet, and goes again after its idle time.
package demand

import (
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Facts is all that a plan depends on.
type Facts struct {
	Now time.Time
	// Sets are the NodeSets of the cluster that are to follow demand.
	Sets []Set
	// Others are the cluster's nodes outside of them, which jobs may use too.
	Others []slurm.Node
	// Jobs are all that wait, and all that hold nodes.
	Jobs []slurm.Job
}

// Set is a NodeSet that follows demand.
type Set struct {
	Name string
	// Min and Max bound Replicas, which is the wanted number of workers as it stands.
	Min, Max, Replicas int32
	// Priority: of several sets that could run a job, the one with the higher gets the new workers.
	Priority int32
	// IdleTime is how long a worker is without a job before it goes, PendingTime how long a job waits
	// before workers are added for it.
	IdleTime, PendingTime time.Duration
	// Partitions are those that workers are in.
	Partitions []string
	// Shape is what one worker offers.
	Shape Shape
	// SlurmName is the set's name in Slurm.
	SlurmName string
	Workers   []Worker
}

// Worker is a pod that exists and isn't terminating.
type Worker struct {
	// Node is its Slurm node; nil until it has registered.
	Node *slurm.Node
	// Since is when the pod was made.
	Since time.Time
	// Leaving tells that it is drained to be removed.
	Leaving bool
}

// Plan has a Decision for each set, in their order.
type Plan struct{ Decisions []Decision }

// Decision is the wanted number of workers of a set.
type Decision struct {
	Name     string
	Replicas int32
	// State is one word for it, Message one sentence that says why.
	State   State
	Message string
	// Served is for how many waiting jobs workers are added.
	Served int
}

// State is how a set stands.
type State string

const (
	// Steady: the number of workers is right.
	Steady State = "Steady"
	// Growing and Shrinking: it changes.
	Growing   State = "ScalingUp"
	Shrinking State = "ScalingDown"
	// Limited: waiting jobs could use more workers than maxReplicas allows.
	Limited State = "LimitedByMaximum"
)

const (
	// registerWithin is how long a pod may take until its node registers. After that it counts
	// against the maximum, but no job is expected to run there.
	registerWithin = 10 * time.Minute
	// soon is how far ahead running jobs' ends are counted on: workers that a large job needs
	// beside busy ones are added when these get free by then.
	soon = 10 * time.Minute
	// misfit is after how long a job that Slurm doesn't start, although it seems to fit beside
	// others, is taken to need nodes of its own.
	misfit = time.Minute
)
