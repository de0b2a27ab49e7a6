package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

var queueTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cluster is three nodes of partition p, of which one is drained, full of jobs 1 and 2.
func cluster(more ...slurm.Job) *Queue {
	runs := func(id uint32, nodes, account string, minutes int) slurm.Job {
		j := slurm.Job{ID: id, Name: "sim", User: "alice", UserID: 7, Account: account, QOS: "normal", Partition: "p", Nodes: nodes,
			States: slurm.StatesOf(slurm.JobRunning), CPUs: slurm.NumberOf(8), TimeLimit: slurm.Infinite()}
		if minutes > 0 {
			j.TimeLimit, j.EndTime = slurm.NumberOf(uint64(minutes)), queueTime.Add(time.Duration(minutes)*time.Minute)
		}
		return j
	}
	jobs := []slurm.Job{runs(1, "n1", "phys", 0), runs(2, "n2", "chem", 60), {ID: 3, States: slurm.StatesOf(slurm.JobCompleted), Partition: "p"}}
	nodes := []slurm.Node{
		{Name: "n1", Partitions: []string{"p", "other"}, States: slurm.StatesOf(slurm.NodeAllocated)},
		{Name: "n2", Partitions: []string{"p"}, States: slurm.StatesOf(slurm.NodeAllocated)},
		{Name: "n3", Partitions: []string{"p"}, States: slurm.StatesOf(slurm.NodeIdle, slurm.NodeDrain)},
	}
	return NewQueue(append(jobs, more...), nodes)
}

func waiting(id uint32, priority uint64, reason string) slurm.Job {
	return slurm.Job{ID: id, Partition: "p", Account: "phys", QOS: "normal", UserID: 7, Reason: reason,
		States: slurm.StatesOf(slurm.JobPending), Priority: slurm.NumberOf(priority)}
}

func TestWaitingInAQueue(t *testing.T) {
	held := waiting(9, 999, "JobHeldUser")
	first, second, third := waiting(10, 30, "Resources"), waiting(11, 20, "Priority"), waiting(12, 20, "Priority")
	q := cluster(held, third, first, second)
	planned := first
	planned.ScheduledNodes, planned.StartTime = "n1", queueTime.Add(time.Hour)
	elsewhere := first
	elsewhere.Partition = "other"
	limit := waiting(13, 5, "AssocGrpCpuLimit")
	never := waiting(14, 5, "QOSMaxCpuPerJobLimit")
	for want, j := range map[string]slurm.Job{
		"Slurm job 10 waits in partition p, place 1 of 3: no suitable nodes are free now (Resources); job 2 has n2 until 2026-01-02T04:04:00Z and job 1 has n1" +
			"; 1 of its partition's 3 nodes take no jobs": first,
		"Slurm job 11 waits in partition p, place 2 of 3: jobs of higher priority wait for the same nodes (Priority); before it: job 10":            second,
		"Slurm job 12 waits in partition p, place 3 of 3: jobs of higher priority wait for the same nodes (Priority); before it: job 10 and job 11": third,
		"Slurm job 10 waits in partition p, place 1 of 3: no suitable nodes are free now (Resources); job 1 has n1" +
			"; 1 of its partition's 3 nodes take no jobs; Slurm expects to start it at 2026-01-02T04:04:00Z": planned,
		"Slurm job 10 waits in partition other: no suitable nodes are free now (Resources); job 1 has n1":                        elsewhere,
		"Slurm job 9 waits in partition p: its user holds it (JobHeldUser)":                                                      held,
		"Slurm job 13 waits in partition p: account phys has reached its limit of CPUs (AssocGrpCpuLimit); counted there: job 1": limit,
		"Slurm job 14 waits in partition p: QOS normal allows less than it asks for: CPUs of one job (QOSMaxCpuPerJobLimit)":     never,
	} {
		if d := cmp.Diff(want, Waiting(j, q, queueTime)); d != "" {
			t.Error(d)
		}
	}
}

func TestLimits(t *testing.T) {
	for reason, want := range map[string]string{
		"AssocGrpCpuLimit":                "account a has reached its limit of CPUs",
		"AssocGrpCPUMinutesLimit":         "account a has reached its limit of CPUs times minutes",
		"AssocGrpCPURunMinutesLimit":      "account a has reached its limit of CPUs times minutes",
		"AssocMaxJobsLimit":               "account a has reached its limit of running jobs",
		"AssocGrpGRES":                    "",
		"AssocMaxWallDurationPerJobLimit": "account a allows less than it asks for: time of one job",
		"AssociationJobLimit":             "account a has reached its limit of running jobs",
		"QOSMaxJobsPerUserLimit":          "QOS q has reached its limit of running jobs of one user",
		"QOSMaxCpuPerUserLimit":           "QOS q has reached its limit of CPUs of one user",
		"QOSGrpMemLimit":                  "QOS q has reached its limit of memory",
		"QOSMaxNodePerJobLimit":           "QOS q allows less than it asks for: nodes of one job",
		"QOSMinGRES":                      "",
		"MaxCpuPerAccount":                "QOS q has reached its limit of CPUs of one account",
		"MaxMemPerLimit":                  "partition p allows less than it asks for: memory",
		"QOSNotAllowed":                   "",
		"Priority":                        "",
	} {
		got := ""
		if l := limitOf(slurm.Job{Reason: reason, Account: "a", QOS: "q", Partition: "p"}); l != nil {
			got = l.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// BenchmarkWaiting is what it costs to tell each of 2,000 jobs why it waits.
func BenchmarkWaiting(b *testing.B) {
	var jobs []slurm.Job
	for i := range uint32(2000) {
		jobs = append(jobs, waiting(100+i, uint64(i), "Priority"))
	}
	for b.Loop() {
		q := cluster(jobs...)
		for _, j := range jobs {
			_ = Waiting(j, q, queueTime)
		}
	}
}

// A start behind a job without a time limit is made up: Slurm takes that job to end a year
// after its own start, however long it has run by now.
func TestStartBehindAnEndlessJob(t *testing.T) {
	endless := slurm.Job{ID: 1, States: slurm.StatesOf(slurm.JobRunning), Partition: "p", Nodes: "n1", StartTime: queueTime.Add(-200 * 24 * time.Hour), TimeLimit: slurm.Infinite()}
	limited := endless
	limited.TimeLimit = slurm.NumberOf(400 * 24 * 60)
	waiting := func(in time.Duration) slurm.Job {
		return slurm.Job{ID: 2, States: slurm.StatesOf(slurm.JobPending), Reason: "Resources", Partition: "p", StartTime: queueTime.Add(in)}
	}
	nodes := []slurm.Node{{Name: "n1", Partitions: []string{"p"}}}
	for name, tc := range map[string]struct {
		runs slurm.Job
		in   time.Duration
		open bool
	}{
		"behind it":            {endless, 165 * 24 * time.Hour, true},
		"later":                {endless, 200 * 24 * time.Hour, true},
		"before it ends":       {endless, 24 * time.Hour, false},
		"behind a limited one": {limited, 165 * 24 * time.Hour, false},
	} {
		j := waiting(tc.in)
		q := NewQueue([]slurm.Job{tc.runs, j}, nodes)
		start, open := q.Expected(j, queueTime)
		if open != tc.open || start.IsZero() != tc.open {
			t.Errorf("%s: %v, %v", name, start, open)
		}
		if says := strings.Contains(Waiting(j, q, queueTime), "can't be told, as what runs before it has no time limit"); says != tc.open {
			t.Errorf("%s: %s", name, Waiting(j, q, queueTime))
		}
	}
}
