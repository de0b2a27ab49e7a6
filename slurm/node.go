package slurm

import (
	"reflect"
	"time"
)

// Node is a node as slurmctld knows it.
type Node struct {
	Name, Address, Hostname string
	States                  States
	Reason, ReasonUser      string
	ReasonTime              time.Time

	Partitions               []string
	Features, ActiveFeatures []string

	CPUs, Boards, Sockets, Cores, Threads int
	// EffectiveCPUs are the CPUs that jobs may use.
	EffectiveCPUs int
	// RealMemory, AllocMemory and FreeMemory are in MiB.
	RealMemory, AllocMemory uint64
	FreeMemory              Number
	AllocCPUs               int
	// SpecializedMemory, in MiB, is kept from jobs.
	SpecializedMemory uint64

	GRES, GRESUsed string
	Topology       string
	Version        string
	Comment, Extra string
	Reservation    string

	BootTime, SlurmdStartTime time.Time
	// LastBusy is when a job last used the node, or when it registered first.
	LastBusy time.Time
}

// NodeCreate describes a dynamic node to add. Address must be an IP: slurmctld
// resolves a missing one at each job start, with its locks held.
type NodeCreate struct {
	Name, Address string
	// Port is where its slurmd listens; 0 for SlurmdPort of slurm.conf.
	Port                    int
	CPUs, Boards            int
	Sockets, CoresPerSocket int
	ThreadsPerCore          int
	// ReservedCPUs are kept from jobs, by Slurm's abstract numbers: core*ThreadsPerCore + thread.
	ReservedCPUs   []int
	RealMemory     uint64
	MemSpecLimit   uint64
	Features       []string
	GRES           string
	GRESConf       string
	Topology       string
	Comment, Extra string
	// External makes a node without a slurmd, for external jobs.
	External bool
	// Future makes a node that no job can use and that is hidden, until an update gives it a state.
	Future bool
}

// Alike tells whether two nodes differ by name and address alone.
func (n NodeCreate) Alike(other NodeCreate) bool {
	n.Name, n.Address, other.Name, other.Address = "", "", "", ""
	return reflect.DeepEqual(n, other)
}

// NodeUpdate is a change of a node. Nil and empty fields stay as they are.
type NodeUpdate struct {
	// State is a word such as DRAIN, UNDRAIN, DOWN or RESUME.
	State  string
	Reason string
	// Features are those that the node has, ActiveFeatures those that are switched on; without
	// the latter, all are.
	Features, ActiveFeatures []string

	Address  string
	Comment  *string
	Extra    *string
	Topology *string
}

// Partition is a partition as slurmctld knows it.
type Partition struct {
	Name         string
	Nodes        string
	NodeSets     string
	State        States
	Default      bool
	MaxTime      Number
	DefaultTime  Number
	TotalNodes   int
	TotalCPUs    int
	Alternate    string
	AllowedAccts string
}
