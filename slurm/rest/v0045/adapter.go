// Package v0045 reads and writes slurmrestd's data parser v0.0.45, which first came with Slurm 26.05.
// Its generated types don't leave this package.
package v0045

//go:generate go tool -modfile=../../../hack/tools/go.mod oapi-codegen -config ../oapi-codegen.yaml -package v0045 -o types.gen.go openapi.json

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// Dialect returns this version.
func Dialect() dialect.Dialect {
	return dialect.Dialect{
		Version: "v0.0.45",
		Read: dialect.Reader{
			Pings:      list("pings", ping),
			JobStates:  dialect.JobStates,
			Jobs:       list("jobs", job),
			Resources:  list("nodes", nodeAllocation),
			Nodes:      list("nodes", node),
			Partitions: list("partitions", partition),
			Diag:       diag,
			Licenses:   list("licenses", license),
			Shares:     shares,

			Reservations: list("reservations", reservation),
			Accounts:     list("accounts", account),
			Users:        list("users", user),
			Associations: list("associations", association),
			QOSes:        list("qos", qos),
		},
		Write: dialect.Writer{
			Submit: func(r slurm.JobRequest) any {
				return JobSubmitReq{Job: jobDesc(r), Script: r.Script}
			},
			SubmitHet: func(rs []slurm.JobRequest) any {
				req := hetSubmitReq{}
				for _, r := range rs {
					req.Jobs = append(req.Jobs, jobDesc(r))
				}
				return req
			},
			Allocate: func(r slurm.JobRequest) any {
				d := jobDesc(r)
				d.Immediate = true
				return JobAllocReq{Job: d}
			},
			UpdateJob:  func(r slurm.JobRequest) any { return jobDesc(r) },
			CancelJobs: func(ids []string) any { return KillJobsMsg{Jobs: ids} },
			CreateNode: func(line string) any { return OpenapiCreateNodeReq{NodeConf: line} },
			UpdateNode: func(u slurm.NodeUpdate) any { return updateNode(u) },
			UpdateNodes: func(names []string, u slurm.NodeUpdate) any {
				return updateNodesMsg{Name: names, UpdateNodeMsg: updateNode(u)}
			},

			Reservation:    reservationDesc,
			CreateAccount:  createAccount,
			UpdateAccount:  updateAccount,
			CreateUser:     createUser,
			UpdateUser:     updateUser,
			PutAssociation: putAssociation,
			PutQOS:         putQOS,
		},
	}
}

func list[G, T any](name string, convert func(G) (T, error)) func(io.Reader) ([]T, dialect.Reply, error) {
	return func(r io.Reader) ([]T, dialect.Reply, error) {
		var out []T
		rep, err := dialect.List(r, name, func(g G) error {
			v, err := convert(g)
			out = append(out, v)
			return err
		})
		return out, rep, err
	}
}

func ping(p ControllerPing) (slurm.Ping, error) {
	// This version has no mode; slurmctld numbers its controllers from the primary on.
	mode := "backup"
	if p.Primary {
		mode = "primary"
	}
	return slurm.Ping{Hostname: p.Hostname, Mode: mode, Responding: p.Responding, Primary: p.Primary, Status: p.Status}, nil
}

func job(j JobInfo) (slurm.Job, error) {
	if j.JobId <= 0 || j.JobId > math.MaxUint32 {
		return slurm.Job{}, fmt.Errorf("a job with the id %d", j.JobId)
	}
	return slurm.Job{
		ID: uint32(j.JobId), SLUID: j.StepId.Sluid,
		Name: j.Name, User: j.UserName, Group: j.GroupName, UserID: uint32(j.UserId), GroupID: uint32(j.GroupId),
		Account: j.Account, Partition: j.Partition, QOS: j.Qos, Reservation: j.ResvName, Cluster: j.Cluster,
		States: slurm.StatesOf(j.JobState...), Reason: known(j.StateReason, "None"), Description: j.StateDescription,
		Nodes: j.Nodes, ScheduledNodes: j.ScheduledNodes,
		NodeCount: slurm.Number(j.NodeCount), CPUs: slurm.Number(j.Cpus), Tasks: slurm.Number(j.Tasks),
		Priority: slurm.Number(j.Priority), TimeLimit: slurm.Number(j.TimeLimit),
		SubmitTime: j.SubmitTime.Time(), EligibleTime: j.EligibleTime.Time(),
		StartTime: j.StartTime.Time(), EndTime: j.EndTime.Time(), PreemptTime: j.PreemptTime.Time(),
		Flags: j.Flags, Comment: j.Comment, AdminComment: j.AdminComment,
		Dependency: j.Dependency, Licenses: j.Licenses, TRESRequested: j.TresReqStr, TRESAllocated: j.TresAllocStr,
		ExitCode: slurm.Number(j.ExitCode.ReturnCode), SignalID: uint32(j.ExitCode.Signal.Id.Value),
		HetJobID: nonZero(j.HetJobId), ArrayJobID: nonZero(j.ArrayJobId), ArrayTaskID: slurm.Number(j.ArrayTaskId),
		ArrayTasks: j.ArrayTaskString,
		Asked: slurm.JobAsks{
			Constraints: j.Features, RequiredNodes: j.RequiredNodes, ExcludedNodes: j.ExcludedNodes,
			Exclusive:    slices.Contains(j.Shared, "none") || exclusive(j.SubmitLine), // "none" is Slurm's word for whole nodes
			MaximumNodes: nonZero(j.MaxNodes), CPUsPerTask: nonZero(j.CpusPerTask), TasksPerNode: nonZero(j.TasksPerNode),
			MinimumCPUsPerNode: nonZero(j.MinimumCpusPerNode),
			MemoryPerNode:      slurm.Number(j.MemoryPerNode), MemoryPerCPU: slurm.Number(j.MemoryPerCpu),
			TRESPerJob: j.TresPerJob, TRESPerNode: j.TresPerNode, TRESPerSocket: j.TresPerSocket, TRESPerTask: j.TresPerTask,
		},
	}, nil
}

// exclusive tells whether a job's command line asks for whole nodes: v0.0.45 has no field for it,
// and leaves the one of the versions before empty.
func exclusive(submitLine string) bool {
	return slices.Contains(strings.Fields(submitLine), "--exclusive")
}

// nonZero makes the 0 that stands for "none" unset.
func nonZero(n dialect.Number) slurm.Number {
	if n.Value == 0 {
		return slurm.Number{}
	}
	return slurm.Number(n)
}

// known returns s, or "" where s is Slurm's word for nothing.
func known(s, nothing string) string {
	if s == nothing {
		return ""
	}
	return s
}

// hetSubmitReq is a job_submit_req with the components of a heterogeneous job.
type hetSubmitReq struct {
	Jobs []JobDescMsg `json:"jobs"`
}

func jobDesc(r slurm.JobRequest) JobDescMsg {
	d := JobDescMsg{
		Name: r.Name, Partition: r.Partition, Account: r.Account, Qos: r.QOS, Reservation: r.Reservation,
		Constraints: r.Constraints, Licenses: r.Licenses, Wckey: r.WCKey, McsLabel: r.MCSLabel,
		UserId: r.UserID, GroupId: r.GroupID,
		MinimumNodes: int64(r.MinimumNodes), MaximumNodes: int64(r.MaximumNodes),
		Tasks: int64(r.Tasks), TasksPerNode: int64(r.TasksPerNode), CpusPerTask: int64(r.CPUsPerTask), MinimumCpus: int64(r.MinimumCPUs),
		MemoryPerNode: dialect.Number(r.MemoryPerNode), MemoryPerCpu: dialect.Number(r.MemoryPerCPU),
		TresPerNode: r.TRESPerNode, TresPerTask: r.TRESPerTask,
		TimeLimit: dialect.Number(r.TimeLimit), Priority: dialect.Number(r.Priority),
		RequiredNodes: r.RequiredNodes, ExcludedNodes: r.ExcludedNodes, Distribution: r.Distribution,
		Comment: r.Comment, AdminComment: r.AdminComment,
		CurrentWorkingDirectory: r.WorkingDirectory, Environment: r.Environment,
	}
	if !r.Deadline.IsZero() {
		d.Deadline = r.Deadline.Unix()
	}
	if r.Exclusive {
		d.Shared = dialect.Strings{"none"} // Slurm's word for whole nodes
	}
	if r.External {
		d.Flags = append(d.Flags, slurm.FlagExternalJob)
	}
	if r.FewestNodes {
		d.Flags = append(d.Flags, "PREFER_MINIMUM_NODE_COUNT")
	}
	return d
}

func node(n Node) (slurm.Node, error) {
	if n.Name == "" {
		return slurm.Node{}, errors.New("a node without a name")
	}
	return slurm.Node{
		Name: n.Name, Address: n.Address, Hostname: n.Hostname, States: slurm.StatesOf(n.State...),
		Reason: n.Reason, ReasonUser: n.ReasonSetByUser, ReasonTime: n.ReasonChangedAt.Time(),
		Partitions: n.Partitions, Features: n.Features, ActiveFeatures: n.ActiveFeatures,
		CPUs: int(n.Cpus), Boards: int(n.Boards), Sockets: int(n.Sockets), Cores: int(n.Cores), Threads: int(n.Threads),
		RealMemory: uint64(max(n.RealMemory, 0)), AllocMemory: uint64(max(n.AllocMemory, 0)),
		FreeMemory: slurm.Number(n.FreeMem), AllocCPUs: int(n.AllocCpus),
		GRES: n.Gres, GRESUsed: n.GresUsed, Topology: n.Topology, Version: n.Version,
		Comment: n.Comment, Extra: n.Extra, Reservation: n.Reservation,
		BootTime: n.BootTime.Time(), SlurmdStartTime: n.SlurmdStartTime.Time(), LastBusy: n.LastBusy.Time(),
		EffectiveCPUs: int(n.EffectiveCpus), SpecializedMemory: uint64(max(n.SpecializedMemory, 0)),
	}, nil
}

// updateNodesMsg is an UpdateNodeMsg that names its nodes, where the URL doesn't.
type updateNodesMsg struct {
	Name []string `json:"name"`
	UpdateNodeMsg
}

func updateNode(u slurm.NodeUpdate) UpdateNodeMsg {
	m := UpdateNodeMsg{Reason: u.Reason, Comment: u.Comment, Extra: u.Extra, TopologyStr: u.Topology}
	if u.State != "" {
		m.State = dialect.Strings{u.State}
	}
	// The active set must be within the available one, so both change together.
	m.Features, m.FeaturesAct = u.Features, u.Features
	if u.ActiveFeatures != nil {
		m.FeaturesAct = u.ActiveFeatures
	}
	if u.Address != "" {
		m.Address = dialect.Strings{u.Address}
	}
	return m
}

func partition(p PartitionInfo) (slurm.Partition, error) {
	return slurm.Partition{
		Name: p.Name, Nodes: p.Nodes.Configured, NodeSets: p.NodeSets, State: slurm.StatesOf(p.Partition.State...),
		Default: slurm.StatesOf(p.Flags...).Has("DEFAULT"),
		MaxTime: slurm.Number(p.Maximums.Time), DefaultTime: slurm.Number(p.Defaults.Time),
		TotalNodes: int(p.Nodes.Total), TotalCPUs: int(p.Cpus.Total),
		Alternate: p.Alternate, AllowedAccts: p.Accounts.Allowed,
	}, nil
}

func nodeAllocation(n NodeResourceLayout) (slurm.NodeAllocation, error) {
	out := slurm.NodeAllocation{
		Node: n.Node, Sockets: int(n.SocketsPerNode), CoresPerSocket: int(n.CoresPerSocket),
		Memory: uint64(max(n.MemAlloc, 0)),
	}
	var err error
	if out.Cores, err = dialect.Bitmap(n.CoreBitmap); err != nil {
		return out, err
	}
	for _, g := range n.Gres {
		if g.Count == 0 {
			continue // a job over unlike nodes lists every type on each of them
		}
		indexes, err := tres.ParseIndexes(g.Index)
		if err != nil {
			return out, err
		}
		out.GRES = append(out.GRES, slurm.GRESAllocation{Name: g.Name, Type: g.Type, Count: uint64(g.Count), Indexes: indexes})
	}
	return out, nil
}
