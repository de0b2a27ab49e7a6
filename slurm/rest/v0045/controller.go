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
		JobsPending: count(s.JobsPending), JobsRunning: count(s.JobsRunning),
		ServerThreads: count(s.ServerThreadCount), AgentQueue: count(s.AgentQueueSize), DBDAgentQueue: count(s.DbdAgentQueueSize),
		Schedule:      slurm.Cycles{Last: microseconds(s.ScheduleCycleLast), Mean: microseconds(s.ScheduleCycleMean), Max: microseconds(s.ScheduleCycleMax)},
		Backfill:      slurm.Cycles{Last: microseconds(s.BfCycleLast), Mean: microseconds(s.BfCycleMean), Max: microseconds(s.BfCycleMax)},
		ScheduleQueue: count(s.ScheduleQueueLength), BackfillActive: s.BfActive, BackfillTime: s.BfWhenLastCycle.Time(),
		BackfilledJobs: count(s.BfBackfilledJobs),
	}, rep, err
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
