package placement_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/placement"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

func request(name string, cpus uint32) placement.Request {
	return placement.Request{Job: slurm.JobRequest{Name: name, Partition: "ext", External: true, CPUsPerTask: cpus, MemoryPerNode: slurm.NumberOf(1000),
		TimeLimit: slurm.NumberOf(10), WorkingDirectory: "/tmp", AdminComment: "uid-" + name}}
}

func TestPlaceInSlurm(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	c := cluster.Client(t, "root")
	place := func(r placement.Request, want placement.State) placement.Placement {
		t.Helper()
		p, err := placement.Place(t.Context(), c, r)
		if err != nil || p.State != want {
			t.Fatalf("%s: %+v (%s), %v, want %s", r.Job.Name, p, p.Reason(), err, want)
		}
		return p
	}
	first := place(request("first", 12), placement.Running)
	if len(first.Allocation.Nodes) != 1 || first.Allocation.Nodes[0].Node != "x1" || len(first.Allocation.Nodes[0].Cores) != 6 || first.Job.SLUID == "" || first.Found {
		t.Errorf("placement %+v", first)
	}
	again := place(request("first", 12), placement.Running)
	if again.Job.SLUID != first.Job.SLUID || !again.Found {
		t.Errorf("a second call made job %d beside %d", again.Job.ID, first.Job.ID)
	}
	second := place(request("second", 8), placement.Queued)
	if second.Job.SLUID == "" || len(second.Allocation.Nodes) != 0 {
		t.Errorf("placement %+v", second)
	}
	nowhere := request("nowhere", 1)
	nowhere.Job.Partition = "nope"
	if p := place(nowhere, placement.Refused); p.Reason() == "" || p.Job.ID != 0 {
		t.Errorf("refusal %+v", p)
	}
	if err := placement.Cancel(t.Context(), c, first.Job.ID, second.Job.ID); err != nil {
		t.Fatal(err)
	}
	if p := place(request("first", 12), placement.Running); p.Job.ID == first.Job.ID {
		t.Errorf("a cancelled job was taken for a living one: %+v", p)
	}
}

// losing is a client whose answers to writes are lost, as with a broken connection.
type losing struct{ *rest.Client }

func (l losing) AllocateNow(ctx context.Context, req slurm.JobRequest) (uint32, error) {
	_, err := l.Client.AllocateNow(ctx, req)
	return 0, errors.Join(slurm.ErrUnavailable, err)
}

// TestOneJobForOneWorkload has many ask for the same workload while answers get lost.
func TestOneJobForOneWorkload(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	c := cluster.Client(t, "root")
	r := request("shared", 1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := placement.Place(t.Context(), losing{c}, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// Those who asked at once may have made several; whoever asks next leaves one.
	p, err := placement.Place(t.Context(), c, r)
	if err != nil || p.State != placement.Running || !p.Found {
		t.Fatalf("%+v, %v", p, err)
	}
	jobs, err := c.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.AdminComment == r.Job.AdminComment && !j.States.JobEnded() && j.ID != p.Job.ID {
			t.Errorf("job %d lives beside %d", j.ID, p.Job.ID)
		}
	}
}
