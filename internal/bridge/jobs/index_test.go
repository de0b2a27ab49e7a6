package jobs

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

func job(id uint32, sluid, state, cluster string, pods ...types.UID) slurm.Job {
	c := workload.Comment{Mark: &workload.Mark{Cluster: cluster, Workload: "w", Pods: pods}}
	for i := range pods {
		c.Pods = append(c.Pods, fmt.Sprintf("ns/p%d", i))
	}
	return slurm.Job{
		ID: id, SLUID: sluid, Partition: "p", States: slurm.StatesOf(state),
		Flags: []string{slurm.FlagExternalJob}, AdminComment: c.Encode(),
	}
}

func ids(jobs []slurm.Job) []uint32 {
	var out []uint32
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

func TestIndex(t *testing.T) {
	x := NewIndex("c1")
	x.Put(job(2, "s2", slurm.JobPending, "c1", "a", "b"))
	x.Put(job(1, "s1", slurm.JobRunning, "c1", "b"))
	if x.Put(job(3, "s3", slurm.JobRunning, "c2", "a")) {
		t.Error("a job of another cluster is taken for ours")
	}
	if d := cmp.Diff([]uint32{1, 2}, ids(x.Naming("b", "a"))); d != "" {
		t.Error(d)
	}
	if x.Pending("p") != 1 || x.Pending("q") != 0 {
		t.Errorf("pending: %d in p, %d in q", x.Pending("p"), x.Pending("q"))
	}
	x.Put(job(2, "s2", slurm.JobRunning, "c1", "a", "b"))
	if x.Pending("p") != 0 {
		t.Errorf("pending after it started: %d", x.Pending("p"))
	}
	// slurmctld lost job 2 and gave its id to somebody else.
	foreign := job(2, "s9", slurm.JobRunning, "c1", "z")
	foreign.AdminComment = ""
	x.Put(foreign)
	if _, ok := x.Get(2); ok || len(x.Naming("a")) != 0 {
		t.Error("a reused id is still taken for ours")
	}
	x.Drop(1)
	x.Drop(1)
	if d := cmp.Diff([]uint32(nil), ids(x.All())); d != "" {
		t.Error(d)
	}
}

// TestPendingCountsThoseInTheWay: one that waits for something of its own keeps no other from starting.
func TestPendingCountsThoseInTheWay(t *testing.T) {
	for reason, want := range map[string]int{
		"": 1, "Priority": 1, "Resources": 1, "ReqNodeNotAvail": 1,
		"JobHeldUser": 0, "JobHeldAdmin": 0, "Dependency": 0, "BeginTime": 0, "AssocGrpCpuLimit": 0, "QOSMaxJobsPerUserLimit": 0,
	} {
		x := NewIndex("c1")
		j := job(1, "s1", slurm.JobPending, "c1", "a")
		j.Reason = reason
		x.Put(j)
		if got := x.Pending("p"); got != want {
			t.Errorf("%q: %d in the way, want %d", reason, got, want)
		}
		x.Drop(1)
		if got := x.Pending("p"); got != 0 {
			t.Errorf("%q: %d in the way once it is gone", reason, got)
		}
	}
}

// changing is a view whose job ends while somebody reads it.
type changing struct {
	mu  sync.Mutex
	job slurm.Job
	// reading, if set, runs once after a job was read and before it is returned.
	reading func()
}

func (c *changing) Job(uint32) (slurm.Job, bool) {
	c.mu.Lock()
	j, reading := c.job, c.reading
	c.reading = nil
	c.mu.Unlock()
	if reading != nil {
		reading()
	}
	return j, true
}

// TestFollowKeepsTheNewest: a reader that is slow doesn't bring an old state of a job back.
func TestFollowKeepsTheNewest(t *testing.T) {
	x := NewIndex("c1")
	view := &changing{job: job(1, "s1", slurm.JobRunning, "c1", "a")}
	var quick sync.WaitGroup
	view.reading = func() {
		view.mu.Lock()
		view.job = job(1, "s1", slurm.JobCancelled, "c1", "a")
		view.mu.Unlock()
		quick.Go(func() { x.Follow(view, 1) })
	}
	x.Follow(view, 1)
	quick.Wait()
	if j, _ := x.Get(1); !j.States.Has(slurm.JobCancelled) {
		t.Errorf("the index has the job as %s", j.States)
	}
}
