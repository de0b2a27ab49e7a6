package faultserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Model is what the server knows of its cluster. A test changes it through Server.Change.
type Model struct {
	// Controllers answer to a ping.
	Controllers []slurm.Ping
	// Jobs by id.
	Jobs map[uint32]JobRecord
	// Nodes are in Slurm's order, that of their creation. Those with a running job
	// show what it uses; otherwise their states are as set here.
	Nodes []slurm.Node
	// Partitions; the first is called "ext" and has the nodes with the feature "ext".
	Partitions []Partition
	// NextJob is the id that the next job gets.
	NextJob uint32
	// Since is when slurmctld began to count, Submitted and Started are what it counted.
	Since              time.Time
	Submitted, Started uint64

	// sluids counts the identities given to jobs, writes the calls that changed something.
	sluids, writes int
}

// JobRecord is a job with what it was granted, nil while it waits.
type JobRecord struct {
	slurm.Job
	Allocation []slurm.NodeAllocation
}

// Partition is a partition; its nodes are those that have its feature when they are created, or name it themselves.
type Partition struct {
	slurm.Partition
	Feature string
}

func newModel(now time.Time) Model {
	return Model{
		Controllers: []slurm.Ping{{Hostname: "slurmctl", Mode: "primary", Responding: true, Primary: true, Status: "No error"}},
		Jobs:        map[uint32]JobRecord{},
		Partitions: []Partition{{
			Partition: slurm.Partition{Name: "ext", NodeSets: "ns_ext", State: slurm.StatesOf("UP"), MaxTime: slurm.Infinite()},
			Feature:   "ext",
		}},
		NextJob: 1,
		Since:   now,
	}
}

// AddNode adds an idle external node of two sockets with four cores of two
// threads, 64,000 MiB and four gpus of type h200, in partition "ext".
func (m *Model) AddNode(name string) {
	m.Nodes = append(m.Nodes, slurm.Node{
		Name: name, Address: "127.0.0.1", Hostname: name, Partitions: []string{"ext"},
		States:   slurm.StatesOf(slurm.NodeIdle, slurm.NodeExternal, slurm.NodeDynamicNorm),
		Features: []string{"ext"}, ActiveFeatures: []string{"ext"},
		CPUs: 16, Boards: 1, Sockets: 2, Cores: 4, Threads: 2, RealMemory: 64000, GRES: "gpu:h200:4",
	})
}

// Node returns the node of that name, nil where there is none.
func (m *Model) Node(name string) *slurm.Node {
	for i := range m.Nodes {
		if m.Nodes[i].Name == name {
			return &m.Nodes[i]
		}
	}
	return nil
}

// RemoveNode makes Slurm forget a node.
func (m *Model) RemoveNode(name string) {
	m.Nodes = slices.DeleteFunc(m.Nodes, func(n slurm.Node) bool { return n.Name == name })
}

// AddJob adds an external job in the given state and with an identity of its
// own, and returns its id. A running one is granted one core of the named node.
func (m *Model) AddJob(now time.Time, name, state, node string) uint32 {
	j := slurm.Job{
		Name: name, Partition: "ext", States: slurm.StatesOf(state), Flags: []string{slurm.FlagExternalJob},
		SubmitTime: now, EligibleTime: now, TimeLimit: slurm.NumberOf(10), CPUs: slurm.NumberOf(1), NodeCount: slurm.NumberOf(1), Tasks: slurm.NumberOf(1),
	}
	m.own(&j)
	record := JobRecord{Job: j}
	if n := m.Node(node); n != nil && state == slurm.JobRunning {
		record.Allocation = []slurm.NodeAllocation{m.grant(*n, demand{cpus: 1})}
		m.started(&record, now)
	}
	m.Jobs[j.ID] = record
	return j.ID
}

// own gives a job what Slurm gives every new one.
func (m *Model) own(j *slurm.Job) {
	m.sluids++
	m.Submitted++
	j.ID, j.SLUID = m.NextJob, fmt.Sprintf("sTEST%09d", m.sluids)
	j.User, j.Group, j.Cluster = "root", "root", "test"
	j.Priority = slurm.NumberOf(1)
	m.NextJob++
}

// SetState changes a job's states, and frees what it holds where it has ended.
func (m *Model) SetState(id uint32, now time.Time, states ...string) {
	j, ok := m.Jobs[id]
	if !ok {
		return
	}
	j.States = slurm.StatesOf(states...)
	if j.States.JobEnded() {
		j.EndTime = now
	}
	m.Jobs[id] = j
}

// Start starts a waiting job on the first nodes that fit; it tells whether there are any.
func (m *Model) Start(id uint32, now time.Time) bool {
	j, ok := m.Jobs[id]
	if !ok || !j.States.Has(slurm.JobPending) {
		return false
	}
	cpus, _ := j.CPUs.Get()
	nodes, _ := j.NodeCount.Get()
	d := demand{nodes: int(max(nodes, 1)), cpus: int(cpus / max(nodes, 1)), memory: memoryOf(j.TRESRequested), partition: j.Partition}
	if j.Allocation, ok = m.place(d); !ok {
		return false
	}
	j.States = slurm.StatesOf(slurm.JobRunning)
	m.started(&j, now)
	m.Jobs[id] = j
	return true
}

func (m *Model) started(j *JobRecord, now time.Time) {
	m.Started++
	var names []string
	for _, n := range j.Allocation {
		names = append(names, n.Node)
	}
	// Without brackets, which is a hostlist too.
	j.Nodes, j.NodeCount, j.Reason = strings.Join(names, ","), slurm.NumberOf(uint64(len(names))), ""
	j.StartTime = now
	if minutes, ok := j.TimeLimit.Get(); ok {
		j.EndTime = now.Add(time.Duration(minutes) * time.Minute)
	}
}

func (m *Model) ids() []uint32 { return slices.Sorted(maps.Keys(m.Jobs)) }

// used is what running jobs hold of a node.
func (m *Model) used(name string) (cores []int, memory uint64, gres []slurm.GRESAllocation) {
	for _, id := range m.ids() {
		if !m.Jobs[id].States.Has(slurm.JobRunning) {
			continue
		}
		for _, a := range m.Jobs[id].Allocation {
			if a.Node == name {
				cores, memory, gres = append(cores, a.Cores...), memory+a.Memory, append(gres, a.GRES...)
			}
		}
	}
	return cores, memory, gres
}
