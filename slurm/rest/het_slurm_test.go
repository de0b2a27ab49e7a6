package rest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// TestHeterogeneousJobs shows what the bridge builds on: external components of
// different shapes start together, have consecutive ids and comments of their own.
func TestHeterogeneousJobs(t *testing.T) {
	small := slurmtest.ExternalNode("s1")
	small.GRES, small.GRESConf = "", ""
	small.CPUs, small.Sockets, small.CoresPerSocket, small.ThreadsPerCore = 2, 1, 2, 1
	cluster := slurmtest.Start(t, slurmtest.Options{
		ExternalNodes: []slurm.NodeCreate{small, slurmtest.ExternalNode("x1"), slurmtest.ExternalNode("x2")},
	})
	for version, c := range clients(t, cluster) {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			leader, workers := request("group", 1), request("group", 4)
			leader.AdminComment, leader.MinimumNodes, leader.Exclusive = "leader", 1, true
			workers.AdminComment, workers.MinimumNodes, workers.TRESPerNode = "workers", 2, "gres/gpu:1"
			id, err := c.SubmitHet(ctx, []slurm.JobRequest{leader, workers})
			if err != nil {
				t.Fatal(err)
			}
			read := func(id uint32) slurm.Job {
				t.Helper()
				j, err := c.Job(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			until(t, "both components run", func() bool {
				return read(id).States.Has(slurm.JobRunning) && read(id+1).States.Has(slurm.JobRunning)
			})
			type component struct {
				comment, nodes string
				leader         slurm.Number
			}
			var got []component
			for _, i := range []uint32{id, id + 1} {
				j := read(i)
				got = append(got, component{j.AdminComment, j.Nodes, j.HetJobID})
			}
			leaderID := slurm.NumberOf(uint64(id))
			if d := cmp.Diff([]component{{"leader", "s1", leaderID}, {"workers", "x[1-2]", leaderID}}, got,
				cmp.AllowUnexported(component{}), cmp.Comparer(func(a, b slurm.Number) bool { return a == b })); d != "" {
				t.Error(d)
			}

			waits, err := c.SubmitHet(ctx, []slurm.JobRequest{leader, workers})
			if err != nil {
				t.Fatal(err)
			}
			// Without its other component, a job that waits would wait for ever.
			if err := c.CancelJobs(ctx, waits+1); err != nil {
				t.Fatal(err)
			}
			if j := read(waits); !j.States.Has(slurm.JobPending) {
				t.Errorf("after its other component was cancelled, the leader is %s", j.States)
			}
			if err := c.CancelJobs(ctx, waits, id, id+1); err != nil {
				t.Fatal(err)
			}
			for _, i := range []uint32{waits, waits + 1, id, id + 1} {
				if j := read(i); !j.States.JobEnded() {
					t.Errorf("job %d is %s", i, j.States)
				}
			}

			_, err = c.SubmitHet(ctx, []slurm.JobRequest{leader})
			kind(t, "one component", err, slurm.ErrInvalid)
		})
	}
}
