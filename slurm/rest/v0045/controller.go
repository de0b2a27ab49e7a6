package v0045

import (
	"fmt"
	"io"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

func diag(r io.Reader) (slurm.Diag, dialect.Reply, error) {
	var s StatsMsg
	rep, err := dialect.Object(r, "statistics", &s)
	return slurm.Diag{
		Time: s.ReqTime.Time(), Since: s.ReqTimeStart.Time(),
		JobsSubmitted: count(s.JobsSubmitted), JobsStarted: count(s.JobsStarted), JobsCompleted: count(s.JobsCompleted),
		JobsCanceled: count(s.JobsCanceled), JobsFailed: count(s.JobsFailed),
		JobsPending: count(s.JobsPending), JobsRunning: count(s.JobsRunning), JobsTime: s.JobStatesTs.Time(),
		ServerThreads: count(s.ServerThreadCount), Agents: count(s.AgentCount), AgentThreads: count(s.AgentThreadCount),
		AgentQueue: count(s.AgentQueueSize), DBDAgentQueue: count(s.DbdAgentQueueSize), ClockLatency: microseconds(s.GettimeofdayLatency),
		Schedule: schedule(s), Backfill: backfill(s), BackfillActive: s.BfActive, BackfillTime: s.BfWhenLastCycle.Time(),
		BackfilledJobs: count(s.BfBackfilledJobs), BackfilledLately: count(s.BfLastBackfilledJobs), BackfilledHetJobs: count(s.BfBackfilledHetJobs),
		CallsByType: callsByType(s.RpcsByMessageType), CallsByUser: callsByUser(s.RpcsByUser),
	}, rep, err
}

func schedule(s StatsMsg) slurm.Cycles {
	e := s.ScheduleExit
	return slurm.Cycles{
		Count: count(s.ScheduleCycleTotal), Last: microseconds(s.ScheduleCycleLast), Mean: microseconds(s.ScheduleCycleMean),
		Max: microseconds(s.ScheduleCycleMax), Sum: microseconds(s.ScheduleCycleSum),
		Depth: slurm.Measure{Mean: count(s.ScheduleCycleMeanDepth), Sum: count(s.ScheduleCycleDepth)},
		Queue: slurm.Measure{Last: count(s.ScheduleQueueLength)},
		Ends: map[string]uint64{
			"end_job_queue": count(e.EndJobQueue), "default_queue_depth": count(e.DefaultQueueDepth), "max_job_start": count(e.MaxJobStart),
			"max_rpc_cnt": count(e.MaxRpcCnt), "max_sched_time": count(e.MaxSchedTime), "licenses": count(e.Licenses),
		},
	}
}

func backfill(s StatsMsg) slurm.Cycles {
	e := s.BfExit
	return slurm.Cycles{
		Count: count(s.BfCycleCounter), Last: microseconds(s.BfCycleLast), Mean: microseconds(s.BfCycleMean),
		Max: microseconds(s.BfCycleMax), Sum: microseconds(s.BfCycleSum),
		Depth: slurm.Measure{Last: count(s.BfLastDepth), Mean: count(s.BfDepthMean), Sum: count(s.BfDepthSum)},
		Tried: slurm.Measure{Last: count(s.BfLastDepthTry), Mean: count(s.BfDepthMeanTry), Sum: count(s.BfDepthTrySum)},
		Queue: slurm.Measure{Last: count(s.BfQueueLen), Mean: count(s.BfQueueLenMean), Sum: count(s.BfQueueLenSum)},
		Table: slurm.Measure{Last: count(s.BfTableSize), Mean: count(s.BfTableSizeMean), Sum: count(s.BfTableSizeSum)},
		Ends: map[string]uint64{
			"end_job_queue": count(e.EndJobQueue), "bf_max_job_start": count(e.BfMaxJobStart), "bf_max_job_test": count(e.BfMaxJobTest),
			"bf_max_time": count(e.BfMaxTime), "bf_node_space_size": count(e.BfNodeSpaceSize), "state_changed": count(e.StateChanged),
		},
	}
}

// Slurm's documentation gives the times of calls in seconds; like sdiag's they are in microseconds.
func callsByType(list []StatsMsgRpcType) []slurm.Calls {
	var out []slurm.Calls
	for _, r := range list {
		out = append(out, slurm.Calls{Name: r.MessageType, Count: count(r.Count), Queued: count(r.Queued), Dropped: count(r.Dropped), Time: microseconds(r.TotalTime)})
	}
	return out
}

func callsByUser(list []StatsMsgRpcUser) []slurm.Calls {
	var out []slurm.Calls
	for _, r := range list {
		out = append(out, slurm.Calls{Name: r.User, UserID: uint32(count(r.UserId)), Count: count(r.Count), Time: microseconds(r.TotalTime)})
	}
	return out
}

// named refuses a thing that nobody could ask for again.
func named(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s without a name", what)
	}
	return nil
}

func count(n int64) uint64 { return uint64(max(n, 0)) }

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func license(l License) (slurm.License, error) {
	return slurm.License{
		Name: l.LicenseName, Total: count(l.Total), Used: count(l.Used), Free: count(l.Free), Reserved: count(l.Reserved), Remote: l.Remote,
	}, named("license", l.LicenseName)
}

// shares are two levels deep in the answer.
func shares(r io.Reader) ([]slurm.Share, dialect.Reply, error) {
	var m SharesRespMsg
	rep, err := dialect.Object(r, "shares", &m)
	if err != nil {
		return nil, rep, err
	}
	var out []slurm.Share
	for _, s := range m.Shares {
		if err := named("share", s.Name); err != nil {
			return nil, rep, err
		}
		out = append(out, slurm.Share{
			User: slurm.StatesOf(s.Type...).Has("USER"), Name: s.Name, Parent: s.Parent, Partition: s.Partition, Cluster: s.Cluster,
			Shares: slurm.Number(s.Shares), Normalized: s.SharesNormalized.Value, Usage: count(s.Usage), EffectiveUsage: s.EffectiveUsage.Value,
			Factor: s.Fairshare.Factor.Value, Level: finite(s.Fairshare.Level),
		})
	}
	return out, rep, nil
}

// finite is nil for the number that Slurm writes in place of infinite: the greatest of 64 bits.
func finite(f dialect.Float) *float64 {
	if f.Value != nil && *f.Value >= 1<<63 {
		return nil
	}
	return f.Value
}

func reservation(r ReservationInfo) (slurm.Reservation, error) {
	purge, _ := slurm.Number(r.PurgeCompleted.Time).Get()
	return slurm.Reservation{
		Name: r.Name, Partition: r.Partition, Nodes: r.NodeList, NodeCount: int(r.NodeCount), CoreCount: int(r.CoreCount),
		Features: r.Features, Licenses: r.Licenses, TRES: r.Tres,
		Users: dialect.Split(r.Users), Accounts: dialect.Split(r.Accounts), Groups: dialect.Split(r.Groups), Flags: r.Flags,
		StartTime: r.StartTime.Time(), EndTime: r.EndTime.Time(),
		MaxStartDelay: time.Duration(r.MaxStartDelay) * time.Second, PurgeAfter: time.Duration(min(purge, 1<<32)) * time.Second,
	}, named("reservation", r.Name)
}

func reservationDesc(r slurm.ReservationRequest) any {
	m := ReservationDescMsg{
		Name: r.Name, Partition: r.Partition, NodeList: r.Nodes,
		NodeCount: dialect.Number(r.NodeCount), CoreCount: dialect.Number(r.CoreCount), Duration: dialect.Number(r.Duration),
		Features: r.Features, Licenses: r.Licenses, Users: r.Users, Accounts: r.Accounts, Groups: r.Groups,
		Flags: r.Flags, Comment: r.Comment,
	}
	if !r.StartTime.IsZero() {
		m.StartTime = dialect.Number(slurm.NumberOf(uint64(r.StartTime.Unix())))
	}
	if !r.EndTime.IsZero() {
		m.EndTime = dialect.Number(slurm.NumberOf(uint64(r.EndTime.Unix())))
	}
	return m
}
