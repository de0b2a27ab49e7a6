package rest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// versions are the versions of the data format that the running Slurm offers and we know.
var versions = []string{"v0.0.43", "v0.0.44", "v0.0.45"}

var update = flag.Bool("update", false, "write the OpenAPI documents anew from the running Slurm")

// clients returns a client for each version of the data format.
func clients(t *testing.T, c *slurmtest.Cluster) map[string]*rest.Client {
	t.Helper()
	out := map[string]*rest.Client{}
	for _, version := range versions {
		client, err := rest.New(rest.Config{URL: c.URL, Tokens: c.Tokens(t, "root"), Version: version,
			Warn: func(op, warning string) {
				if !strings.Contains(warning, "accounting storage is disabled") {
					t.Errorf("%s %s: warning: %s", version, op, warning)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		out[version] = client
	}
	return out
}

func request(name string, cpus uint32) slurm.JobRequest {
	return slurm.JobRequest{
		Name: name, Partition: "ext", External: true, CPUsPerTask: cpus, MemoryPerNode: slurm.NumberOf(1000),
		TimeLimit: slurm.NumberOf(10), WorkingDirectory: "/tmp",
	}
}

// until polls until done, as Slurm has nothing to wait on.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("30 s have passed without: %s", what)
		}
	}
}

func kind(t *testing.T, what string, err, want error) *slurm.Error {
	t.Helper()
	var e *slurm.Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
	return e
}

func TestExternalJobs(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	for version, c := range clients(t, cluster) {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			req := request("now", 4)
			req.TRESPerNode = "gres/gpu:2"
			req.AdminComment, req.Comment = `{"uid":"1"}`, "a \"comment\""
			first, err := c.AllocateNow(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			job, err := c.Job(ctx, first)
			if err != nil || !job.States.Has(slurm.JobRunning) || !job.External() || (job.SLUID == "") != (version == "v0.0.43") ||
				job.AdminComment != req.AdminComment || job.Comment != req.Comment || job.TimeLimit != req.TimeLimit {
				t.Fatalf("job %+v, %v", job, err)
			}
			if version > "v0.0.43" {
				a, err := c.Allocation(ctx, first)
				if err != nil {
					t.Fatal(err)
				}
				want := []slurm.NodeAllocation{{Node: "x1", Sockets: 2, CoresPerSocket: 4, Cores: a.Nodes[0].Cores, Memory: 1000,
					GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{0, 1}}}}}
				if diff := cmp.Diff(want, a.Nodes); diff != "" || len(a.Nodes[0].Cores) != 2 {
					t.Errorf("allocation of %d cores, want 2\n%s", len(a.Nodes[0].Cores), diff)
				}
			}

			_, err = c.AllocateNow(ctx, request("busy", 16))
			kind(t, "a job for the whole node", err, slurm.ErrBusy)

			second, err := c.Submit(ctx, request("queued", 16))
			if err != nil {
				t.Fatal(err)
			}
			if job, err := c.Job(ctx, second); err != nil || !job.States.Has(slurm.JobPending) {
				t.Fatalf("queued job: %+v, %v", job, err)
			}
			_, err = c.Allocation(ctx, second)
			want := 2085
			if version == "v0.0.43" {
				want = 0 // it isn't asked for
			}
			if e := kind(t, "allocation of a waiting job", err, slurm.ErrInvalid); e.Code != want {
				t.Errorf("code %d, want %d", e.Code, want)
			}
			if err := c.UpdateJob(ctx, second, slurm.JobRequest{Comment: "changed"}); err != nil {
				t.Fatal(err)
			}
			if err := c.CancelJobs(ctx, first, 4_000_000); err != nil {
				t.Fatal(err)
			}
			until(t, "the queued job runs", func() bool {
				job, err := c.Job(ctx, second)
				return err == nil && job.States.Has(slurm.JobRunning) && job.Comment == "changed"
			})
			// A job that runs may get more time than it has asked for.
			if err := c.UpdateJob(ctx, second, slurm.JobRequest{TimeLimit: slurm.NumberOf(12)}); err != nil {
				t.Fatal(err)
			}
			until(t, "the running job has more time", func() bool {
				job, err := c.Job(ctx, second)
				return err == nil && job.States.Has(slurm.JobRunning) && job.TimeLimit == slurm.NumberOf(12) && job.Comment == "changed"
			})
			if err := c.CancelJobs(ctx, first, second); err != nil {
				t.Fatal(err)
			}
			states, err := c.JobStates(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range states {
				if (s.ID == first || s.ID == second) && !s.States.Has(slurm.JobCancelled) {
					t.Errorf("job %d is %v after its cancellation", s.ID, s.States)
				}
			}
			_, err = c.Job(ctx, 4_000_000)
			kind(t, "a missing job", err, slurm.ErrNotFound)
		})
	}
}

func TestNodes(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{})
	for version, c := range clients(t, cluster) {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			create := slurmtest.ExternalNode("y1")
			create.Comment, create.Extra = "a # comment = \"x\"", `{"hash":"1"}`
			create.MemSpecLimit = 500
			if err := c.CreateNode(ctx, create); version == "v0.0.43" {
				if e := kind(t, "a node by an old version", err, slurm.ErrInvalid); !strings.Contains(e.Text, "needs slurmrestd's data parser v0.0.44") {
					t.Errorf("error %v doesn't tell what it needs", e)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			n, err := c.Node(ctx, "y1")
			if err != nil || n.Comment != create.Comment || n.Extra != create.Extra || n.CPUs != 16 || n.Sockets != 2 || n.Cores != 4 ||
				n.Threads != 2 || n.RealMemory != 64000 || n.GRES != "gpu:h200:4" || !n.States.Has(slurm.NodeIdle, slurm.NodeExternal) {
				t.Errorf("node %+v, %v", n, err)
			}
			if e := kind(t, "a node that exists", c.CreateNode(ctx, create), slurm.ErrInvalid); e.Code != 2168 {
				t.Errorf("code %d, want 2168", e.Code)
			}
			if err := c.UpdateNode(ctx, "y1", slurm.NodeUpdate{State: "DRAIN", Reason: "test: why", Features: []string{"ext", "b"}}); err != nil {
				t.Fatal(err)
			}
			nodes, asOf, err := c.NodesSince(ctx, time.Time{})
			if err != nil || len(nodes) != 1 || !nodes[0].States.Has(slurm.NodeDrain) || nodes[0].Reason != "test: why" ||
				nodes[0].ReasonUser != "root" || !cmp.Equal(nodes[0].ActiveFeatures, []string{"ext", "b"}) {
				t.Errorf("nodes %+v, %v", nodes, err)
			}
			until(t, "no node changed", func() bool {
				nodes, since, err := c.NodesSince(ctx, asOf)
				if err != nil {
					t.Fatal(err)
				}
				asOf = since
				return nodes == nil
			})
			parts, err := c.Partitions(ctx)
			if err != nil || len(parts) != 1 || parts[0].Name != "ext" || parts[0].Nodes != "y1" {
				t.Errorf("partitions %+v, %v", parts, err)
			}
			if err := c.DeleteNode(ctx, "y1"); err != nil {
				t.Fatal(err)
			}
			_, err = c.Node(ctx, "y1")
			kind(t, "a deleted node", err, slurm.ErrNotFound)
			kind(t, "update of a missing node", c.UpdateNode(ctx, "y1", slurm.NodeUpdate{State: "DRAIN"}), slurm.ErrNotFound)
			kind(t, "deletion of a missing node", c.DeleteNode(ctx, "y1"), slurm.ErrNotFound)
			if nodes, err := c.Nodes(ctx); err != nil || len(nodes) != 0 {
				t.Errorf("nodes %+v, %v, want none", nodes, err)
			}
		})
	}
}

func TestAuthentication(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{})
	wrong, err := rest.TokensFromKey(rest.KeyConfig{Key: []byte("not the key"), User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := rest.TokensFromKey(rest.KeyConfig{Key: cluster.Key, User: "root", Now: func() time.Time { return time.Now().Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	for name, tokens := range map[string]rest.TokenSource{"garbage": rest.StaticToken("garbage"), "wrong key": wrong, "expired": expired} {
		c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.JobStates(t.Context())
		kind(t, name, err, slurm.ErrAuth)
		_, err = c.Ping(t.Context())
		kind(t, name+", ping", err, slurm.ErrAuth)
		c.Close()
	}
	alice := cluster.Client(t, "alice")
	kind(t, "alice creates a node", alice.CreateNode(t.Context(), slurmtest.ExternalNode("z")), slurm.ErrAuth)

	file, err := rest.TokensFromKey(rest.KeyConfig{KeyFile: cluster.KeyFile, User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	// Over the unix socket, as root, acting for alice.
	c, err := rest.New(rest.Config{URL: "unix://" + cluster.Socket, Tokens: file, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if version, err := c.Version(t.Context()); err != nil || version != "v0.0.45" {
		t.Errorf("version %q, %v", version, err)
	}
	kind(t, "root, acting for alice, creates a node", c.CreateNode(t.Context(), slurmtest.ExternalNode("z")), slurm.ErrAuth)
}

// TestActingForAnotherUser has root's token and alice's name make a job: it is alice's, and
// she may change it herself.
func TestActingForAnotherUser(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	for _, version := range versions {
		c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(t, "root"), User: "alice", Version: version})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		id, err := c.AllocateNow(t.Context(), request("hers", 1))
		if err != nil {
			t.Fatal(err)
		}
		if job, err := c.Job(t.Context(), id); err != nil || job.User != "alice" || job.UserID != 2001 {
			t.Errorf("%s: job of %s (%d), %v", version, job.User, job.UserID, err)
		}
		if err := cluster.Client(t, "alice").UpdateJob(t.Context(), id, slurm.JobRequest{Comment: "mine"}); err != nil {
			t.Errorf("%s: alice changes her job: %v", version, err)
		}
	}
	// A plain user's token acts for nobody else.
	c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(t, "bob"), User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.AllocateNow(t.Context(), request("stolen", 1))
	kind(t, "bob makes a job as alice", err, slurm.ErrAuth)
}

// TestJobsOfOthers: root and the Slurm user make jobs for others by their submission.
func TestJobsOfOthers(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	for _, version := range versions {
		for _, by := range []string{"root", "slurm"} {
			c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(t, by), Version: version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			req := request("hers", 1)
			req.UserID, req.GroupID = "alice", "2002"
			id, err := c.Submit(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if job, err := c.Job(t.Context(), id); err != nil || job.User != "alice" || job.GroupID != 2002 {
				t.Errorf("%s, by %s: job of %s, group %d, %v", version, by, job.User, job.GroupID, err)
			}
			if err := c.CancelJobs(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestControllerAway(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{})
	c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(t, "root"), Timeout: time.Second, ListTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		start := time.Now()
		_, err := c.JobStates(t.Context())
		kind(t, name+": a read", err, slurm.ErrUnavailable)
		_, err = c.Submit(t.Context(), request("lost", 1))
		kind(t, name+": a write", err, slurm.ErrUnavailable)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: two calls with 1 s each took %v", name, took)
		}
	}
	cluster.Stop(t, "slurmctld")
	check("slurmctld stands still")
	cluster.Continue(t, "slurmctld")
	cluster.Kill(t, "slurmctld")
	check("slurmctld is dead")
	cluster.Restart(t, "slurmctld")
	until(t, "slurmctld answers again", func() bool { _, err := c.JobStates(t.Context()); return err == nil })
	cluster.Kill(t, "slurmrestd")
	check("slurmrestd is dead")
	cluster.Restart(t, "slurmrestd")
	until(t, "slurmrestd answers again", func() bool { _, err := c.JobStates(t.Context()); return err == nil })
}

// TestDocuments holds the checked-in OpenAPI documents against the running
// Slurm's own; with -update it writes them.
func TestDocuments(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true})
	token, err := cluster.Tokens(t, "root").Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cluster.URL+"/openapi/v3", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	res, err := http.DefaultClient.Do(req) //nolint:forbidigo // the test has a deadline
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	whole, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET /openapi/v3: %s, %v", res.Status, err)
	}
	for _, version := range versions {
		cmd := exec.CommandContext(t.Context(), "go", "run", "../../hack/prune-openapi", "-plan", "openapi.json", "-version", version)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(whole), os.Stderr
		pruned, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		file := filepath.Join(strings.ReplaceAll(version, ".", ""), "openapi.json")
		if *update {
			if err := os.WriteFile(file, pruned, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(withoutTitle(want), withoutTitle(pruned)); diff != "" {
			t.Errorf("%s differs from this Slurm's; look at the difference, then run the test with -update and make gen:\n%s", file, diff)
		}
	}
}

// withoutTitle drops the lines that name the exact release.
func withoutTitle(document []byte) []string {
	var lines []string
	for line := range strings.SplitSeq(string(document), "\n") {
		if !strings.Contains(line, `"version": "`) {
			lines = append(lines, line)
		}
	}
	return lines
}
