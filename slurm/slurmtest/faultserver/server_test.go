package faultserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

func connect(t *testing.T, s *faultserver.Server) *rest.Client {
	t.Helper()
	c, err := rest.New(rest.Config{URL: "http://slurmrestd", Dial: s.Dial, Tokens: rest.StaticToken("t"), Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What a test puts in comes out through the client, and what the client does goes in.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultserver.New(t, faultserver.Options{})
		c, ctx := connect(t, s), t.Context()
		s.Change(func(m *faultserver.Model) {
			m.AddNode("x1")
			m.AddNode("x2")
			n := m.Node("x2")
			n.Comment, n.Extra, n.Reason = "a \"comment\"", "{}", "why"
			n.States = slurm.StatesOf(slurm.NodeIdle, slurm.NodeDrain, slurm.NodeExternal)
		})
		id, err := c.AllocateNow(ctx, slurm.JobRequest{
			Name: "j", Partition: "ext", External: true, CPUsPerTask: 5, TRESPerNode: "gres/gpu:2", MemoryPerNode: slurm.NumberOf(1000),
			TimeLimit: slurm.NumberOf(10), Comment: "c", AdminComment: "a",
		})
		if err != nil {
			t.Fatal(err)
		}
		want := slurm.Allocation{JobID: id, Nodes: []slurm.NodeAllocation{{
			Node: "x1", Sockets: 2, CoresPerSocket: 4, Cores: []int{0, 1, 2}, Memory: 1000,
			GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{0, 1}}},
		}}}
		if a, err := c.Allocation(ctx, id); err != nil || !cmp.Equal(want, a) {
			t.Errorf("allocation, %v:\n%s", err, cmp.Diff(want, a))
		}
		j, err := c.Job(ctx, id)
		if err != nil || !j.External() || j.Comment != "c" || j.AdminComment != "a" || j.CPUs != slurm.NumberOf(6) || j.Nodes != "x1" || j.SLUID == "" {
			t.Errorf("job %+v, %v", j, err)
		}
		nodes, err := c.Nodes(ctx)
		if err != nil || len(nodes) != 2 || !nodes[0].States.Has(slurm.NodeMixed) || nodes[0].AllocCPUs != 6 || nodes[0].GRESUsed != "gpu:h200:2(IDX:0-1)" ||
			nodes[1].Comment != "a \"comment\"" || nodes[1].Reason != "why" || !nodes[1].States.Has(slurm.NodeDrain) {
			t.Errorf("nodes %+v, %v", nodes, err)
		}

		second, err := c.Submit(ctx, slurm.JobRequest{Name: "k", Partition: "ext", External: true, CPUsPerTask: 10})
		if err != nil {
			t.Fatal(err)
		}
		s.Change(func(m *faultserver.Model) {
			if !m.Start(second, time.Now()) || m.Jobs[second].Nodes != "x1" {
				t.Errorf("the second job doesn't start: %+v", m.Jobs[second])
			}
		})
		if err := c.CancelJobs(ctx, id, second); err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteNode(ctx, "x1"); err != nil {
			t.Error(err)
		}
	})
}

// A node list is sent only to those who don't have it.
func TestNodesSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultserver.New(t, faultserver.Options{})
		c := connect(t, s)
		s.Change(func(m *faultserver.Model) { m.AddNode("x1") })
		_, since, err := c.NodesSince(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // on the bubble's clock
		_, since, err = c.NodesSince(t.Context(), since)
		if err != nil {
			t.Fatal(err)
		}
		if nodes, _, err := c.NodesSince(t.Context(), since); nodes != nil || err != nil {
			t.Errorf("unchanged: %v, %v", nodes, err)
		}
		s.Change(func(m *faultserver.Model) { m.AddNode("x2") })
		if nodes, _, err := c.NodesSince(t.Context(), since); len(nodes) != 2 || err != nil {
			t.Errorf("changed: %v, %v", nodes, err)
		}
	})
}

// Each fault is used once, in order; what is said for always holds until Heal.
func TestFaultsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultserver.New(t, faultserver.Options{Versions: []string{"v0.0.45"}})
		c := connect(t, s)
		try := func(want bool) {
			t.Helper()
			if _, err := c.JobStates(t.Context()); (err == nil) != want {
				t.Errorf("error %v, success wanted: %v", err, want)
			}
		}
		try(true)
		s.Requests()
		s.Fail(faultserver.JobStates, faultserver.BadGateway, faultserver.GatewayTimeout)
		try(false)
		try(false)
		try(true)
		s.FailAlways(faultserver.AnyCall, faultserver.BadToken)
		s.Fail(faultserver.JobStates, faultserver.BadGateway)
		for range 3 {
			try(false)
		}
		s.Heal()
		try(true)
		r := s.Requests()
		if n := faultserver.Count(r, faultserver.JobStates); n != 7 || faultserver.Count(r, faultserver.AnyCall) != 7 || r[0].Token != "t" {
			t.Errorf("%d calls: %+v", n, r)
		}
	})
}
