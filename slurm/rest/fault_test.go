package rest_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// faulty starts a server with a running job, 1, on node x1, a waiting one, 2,
// and node x2, and a client of it. It is for a test in a bubble.
func faulty(t *testing.T, version string, change func(*rest.Config)) (*faultserver.Server, *rest.Client) {
	t.Helper()
	s := faultserver.New(t, faultserver.Options{})
	s.Change(func(m *faultserver.Model) {
		m.AddNode("x1")
		m.AddNode("x2")
		m.AddJob(time.Now(), "a", slurm.JobRunning, "x1")
		id := m.AddJob(time.Now(), "b", slurm.JobPending, "")
		held := m.Jobs[id]
		held.Priority = slurm.NumberOf(0)
		m.Jobs[id] = held
	})
	config := rest.Config{URL: "http://slurmrestd", Dial: s.Dial, Tokens: rest.StaticToken("t"), Version: version, MaxBody: 1 << 20}
	if change != nil {
		change(&config)
	}
	c, err := rest.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

// operation is a call of the client, and what the server sees of it.
type operation struct {
	name string
	call faultserver.Call
	do   func(context.Context, *rest.Client) error
	// write: it must not be repeated.
	write bool
}

func operations() []operation {
	return []operation{
		{name: "ping", call: faultserver.Ping, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Ping(ctx); return err }},
		{name: "states", call: faultserver.JobStates, do: func(ctx context.Context, c *rest.Client) error { _, err := c.JobStates(ctx); return err }},
		{name: "jobs", call: faultserver.Jobs, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Jobs(ctx); return err }},
		{name: "job", call: faultserver.Job, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Job(ctx, 1); return err }},
		{name: "allocation", call: faultserver.Resources, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Allocation(ctx, 1); return err }},
		{name: "nodes", call: faultserver.Nodes, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Nodes(ctx); return err }},
		{name: "node", call: faultserver.Node, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Node(ctx, "x1"); return err }},
		{name: "partitions", call: faultserver.Partitions, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Partitions(ctx); return err }},
		{name: "statistics", call: faultserver.Diag, do: func(ctx context.Context, c *rest.Client) error { _, err := c.Diag(ctx); return err }},
		{name: "submit", write: true, call: faultserver.Submit, do: func(ctx context.Context, c *rest.Client) error {
			_, err := c.Submit(ctx, request("new", 1))
			return err
		}},
		{name: "allocate", write: true, call: faultserver.Allocate, do: func(ctx context.Context, c *rest.Client) error {
			_, err := c.AllocateNow(ctx, request("new", 1))
			return err
		}},
		{name: "update job", write: true, call: faultserver.UpdateJob, do: func(ctx context.Context, c *rest.Client) error {
			return c.UpdateJob(ctx, 2, slurm.JobRequest{Comment: "c"})
		}},
		{name: "cancel", write: true, call: faultserver.CancelJobs, do: func(ctx context.Context, c *rest.Client) error { return c.CancelJobs(ctx, 1) }},
		{name: "update node", write: true, call: faultserver.UpdateNode, do: func(ctx context.Context, c *rest.Client) error {
			return c.UpdateNode(ctx, "x2", slurm.NodeUpdate{State: "DRAIN", Reason: "why"})
		}},
		{name: "create node", write: true, call: faultserver.CreateNode, do: func(ctx context.Context, c *rest.Client) error {
			return c.CreateNode(ctx, slurm.NodeCreate{Name: "x3", Address: "127.0.0.1", External: true})
		}},
		{name: "delete node", write: true, call: faultserver.DeleteNode, do: func(ctx context.Context, c *rest.Client) error { return c.DeleteNode(ctx, "x2") }},
		{name: "reconfigure", write: true, call: faultserver.Reconfigure, do: func(ctx context.Context, c *rest.Client) error { return c.Reconfigure(ctx) }},
	}
}

// Whatever goes wrong with whatever call, the error has the right kind, comes by
// the client's own deadline, and a write is sent once.
func TestFaults(t *testing.T) {
	cases := map[string]struct {
		fault faultserver.Fault
		want  error
	}{
		"no answer":            {faultserver.Hang, slurm.ErrUnavailable},
		"later than allowed":   {faultserver.Delay(2*time.Minute, nil), slurm.ErrUnavailable},
		"502 after 10 s":       {faultserver.Delay(10*time.Second, faultserver.BadGateway), slurm.ErrUnavailable},
		"502":                  {faultserver.BadGateway, slurm.ErrUnavailable},
		"504":                  {faultserver.GatewayTimeout, slurm.ErrUnavailable},
		"reset":                {faultserver.Reset, slurm.ErrUnavailable},
		"reset after effect":   {faultserver.Lost, slurm.ErrUnavailable},
		"cut off at once":      {faultserver.CutOff(0), slurm.ErrUnavailable},
		"cut off":              {faultserver.CutOff(40), slurm.ErrUnavailable},
		"cut off at the end":   {faultserver.CutOff(1 << 30), slurm.ErrUnavailable},
		"flood":                {faultserver.Flood(64 << 20), slurm.ErrUnavailable},
		"empty":                {faultserver.Garbage(""), slurm.ErrUnavailable},
		"HTML":                 {faultserver.Garbage("<html>"), slurm.ErrUnavailable},
		"a list":               {faultserver.Garbage("[]"), slurm.ErrUnavailable},
		"null":                 {faultserver.Garbage("null"), slurm.ErrUnavailable},
		"half an object":       {faultserver.Garbage(`{"jobs":[],"nodes":[],`), slurm.ErrUnavailable},
		"deep":                 {faultserver.Garbage(`{"jobs":` + strings.Repeat("[", 200_000)), slurm.ErrUnavailable},
		"foreign JSON":         {faultserver.Garbage(`{}`), slurm.ErrUnavailable},
		"foreign JSON, more":   {faultserver.Garbage(`{"status":"ok","jobs":"none","nodes":0}`), slurm.ErrUnavailable},
		"not UTF-8":            {faultserver.Garbage("\xff\xfe{}"), slurm.ErrUnavailable},
		"wrong type":           {faultserver.ContentType("text/html"), slurm.ErrUnavailable},
		"no type":              {faultserver.Reply(faultserver.Answer{Status: http.StatusOK}), slurm.ErrUnavailable},
		"redirect":             {faultserver.Reply(faultserver.Answer{Status: http.StatusFound}), slurm.ErrUnavailable},
		"unasked 304":          {faultserver.Unchanged, slurm.ErrUnavailable},
		"a proxy's 404":        {faultserver.Reply(faultserver.Answer{Status: http.StatusNotFound, Type: "application/json", Body: []byte(`{"message":"no such service"}`)}), slurm.ErrUnavailable},
		"a proxy's 503":        {faultserver.Reply(faultserver.Answer{Status: http.StatusServiceUnavailable, Type: "text/plain", Body: []byte("upstream")}), slurm.ErrUnavailable},
		"wrong version":        {faultserver.WrongVersion, slurm.ErrUnavailable},
		"401":                  {faultserver.NoToken, slurm.ErrAuth},
		"511":                  {faultserver.BadToken, slurm.ErrAuth},
		"200, access denied":   {faultserver.Refuse(200, 2002, "Access/permission denied"), slurm.ErrAuth},
		"200, controller away": {faultserver.Refuse(200, 1800, "Unable to contact slurm controller (connect failure)"), slurm.ErrUnavailable},
		"200, unspecific":      {faultserver.Refuse(200, -1, "Unspecified error"), nil}, // see below
		"200, bad request":     {faultserver.Refuse(200, 2028, "Invalid node state specified"), slurm.ErrInvalid},
	}
	for name, tc := range cases {
		for _, op := range operations() {
			// The versions differ in what is read, not in how it fails: each has half of the cases.
			version := []string{"v0.0.44", "v0.0.45"}[(len(name)+len(op.name))%2]
			t.Run(name+"/"+op.name+"/"+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c := faulty(t, version, nil)
					s.FailAlways(op.call, tc.fault)
					want := tc.want
					if want == nil {
						want = slurm.ErrUnavailable
						if op.call == faultserver.CreateNode {
							want = slurm.ErrInvalid // how slurmctld says that it doesn't understand a line
						}
					}
					checkFault(t, s, c, op, want)
				})
			})
		}
	}
}

func checkFault(t *testing.T, s *faultserver.Server, c *rest.Client, op operation, want error) {
	t.Helper()
	start := time.Now()
	err := op.do(t.Context(), c)
	var e *slurm.Error
	if !errors.Is(err, want) || !errors.As(err, &e) || e.Op == "" {
		t.Fatalf("error %v, want %v", err, want)
	}
	if took := time.Since(start); took > time.Minute || op.write && took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := faultserver.Count(s.Requests(), op.call); op.write && n != 1 {
		t.Errorf("a write was sent %d times", n)
	}
	// The next one is right again, whatever the last one left behind. An object
	// may have got its change, where the answer was lost.
	s.Heal()
	err = op.do(t.Context(), c)
	if err != nil && !(op.write && errors.As(err, &e) && e.Code != 0) {
		t.Errorf("after the fault: %v", err)
	}
}

func TestRefusedConnections(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := faulty(t, "v0.0.45", nil)
				if _, err := c.Ping(t.Context()); err != nil { // now there is a connection in use
					t.Fatal(err)
				}
				s.Down()
				start := time.Now()
				if err := op.do(t.Context(), c); !errors.Is(err, slurm.ErrUnavailable) {
					t.Errorf("error %v, want ErrUnavailable", err)
				}
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("it took %v", took)
				}
				s.Heal()
				if err := op.do(t.Context(), c); err != nil {
					t.Errorf("after the server came back: %v", err)
				}
			})
		})
	}
}

// Over TCP a reset is a reset.
func TestResetConnection(t *testing.T) {
	s := faultserver.New(t, faultserver.Options{})
	c, err := rest.New(rest.Config{URL: s.Listen(t), Tokens: rest.StaticToken("t"), Version: "v0.0.45"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Fail(faultserver.JobStates, faultserver.Reset)
	if _, err := c.JobStates(t.Context()); err != nil {
		t.Errorf("a read is tried again: %v", err)
	}
	s.Fail(faultserver.Submit, faultserver.Lost)
	if _, err := c.Submit(t.Context(), request("j", 1)); !errors.Is(err, slurm.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if n := faultserver.Count(s.Requests(), faultserver.Submit); n != 1 {
		t.Errorf("the job was submitted %d times", n)
	}
	s.Down()
	if err := c.CancelJobs(t.Context(), 1); !errors.Is(err, slurm.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
}

// The caller's deadline counts where it is the earlier one.
func TestCallersDeadline(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := faulty(t, "", nil)
				s.FailAlways(faultserver.AnyCall, faultserver.Hang)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				if err := op.do(ctx, c); !errors.Is(err, slurm.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want ErrUnavailable by deadline", err)
				}
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("it took %v, not 3 s", took)
				}
			})
		})
	}
}

// A slow answer within the deadline is an answer.
func TestSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", nil)
		release := make(chan struct{})
		s.Fail(faultserver.JobStates, faultserver.Slow(release))
		go func() {
			time.Sleep(50 * time.Second) //nolint:forbidigo // on the bubble's clock
			close(release)
		}()
		if states, err := c.JobStates(t.Context()); err != nil || len(states) != 2 {
			t.Errorf("%v, %v", states, err)
		}
	})
}

// What a flood costs is bounded by the limit, not by the flood.
func TestFloodIsBounded(t *testing.T) {
	s := faultserver.New(t, faultserver.Options{})
	c, err := rest.New(rest.Config{URL: "http://slurmrestd", Dial: s.Dial, Tokens: rest.StaticToken("t"), Version: "v0.0.45", MaxBody: 1 << 20, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Fail(faultserver.Jobs, faultserver.Flood(1<<40))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err = c.Jobs(t.Context()); !errors.Is(err, slurm.ErrUnavailable) || !strings.Contains(err.Error(), "longer than the limit") {
		t.Errorf("error %v", err)
	}
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; cost > 32<<20 {
		t.Errorf("a terabyte cost %d MiB of memory", cost>>20)
	}
}
