package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slinky-hpc/slinky/slurm"
)

// recorded serves answers that a real slurmrestd gave.
func recorded(t *testing.T, version, name string) http.HandlerFunc {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", version, name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		io.Copy(w, res.Body)
	}
}

// serve starts a server and returns a client of it that doesn't retry.
func serve(t *testing.T, version string, h http.Handler) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, Tokens: StaticToken("t"), Version: version, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var external = slurm.JobRequest{Name: "b", External: true}

// want says what an answer means: a kind of error with Slurm's number and a part of its text, or success.
type want struct {
	kind error
	code int
	text string
}

type meaning struct {
	call func(*Client) error
	want want
}

// TestRecordedAnswers holds the meaning of every kind of answer.
func TestRecordedAnswers(t *testing.T) {
	node := slurm.NodeCreate{Name: "x1", Address: "127.0.0.1", External: true}
	submit := func(c *Client) error { _, err := c.Submit(t.Context(), external); return err }
	allocate := func(c *Client) error { _, err := c.AllocateNow(t.Context(), external); return err }
	states := func(c *Client) error { _, err := c.JobStates(t.Context()); return err }
	resources := func(c *Client) error { _, err := c.Allocation(t.Context(), 99); return err }
	create := func(c *Client) error { return c.CreateNode(t.Context(), node) }
	drain := func(c *Client) error { return c.UpdateNode(t.Context(), "x1", slurm.NodeUpdate{State: "DRAIN"}) }
	remove := func(c *Client) error { return c.DeleteNode(t.Context(), "x1") }
	update := func(c *Client) error { return c.UpdateJob(t.Context(), 1, slurm.JobRequest{Comment: "hi"}) }
	cancel := func(c *Client) error { return c.CancelJobs(t.Context(), 1, 99) }
	cases := map[string]meaning{
		"ping":                     {func(c *Client) error { _, err := c.Ping(t.Context()); return err }, want{}},
		"bad-token":                {states, want{slurm.ErrAuth, 1007, "Protocol authentication error"}},
		"no-token":                 {states, want{slurm.ErrAuth, 0, "Authentication failure"}},
		"unknown-url":              {states, want{slurm.ErrUnavailable, 0, "Unable to find requested URL"}},
		"states":                   {states, want{}},
		"stalled":                  {states, want{slurm.ErrUnavailable, -1, "Unable to query job states"}},
		"down":                     {states, want{slurm.ErrUnavailable, -1, ""}},
		"jobs":                     {func(c *Client) error { _, err := c.Jobs(t.Context()); return err }, want{}},
		"job-missing":              {func(c *Client) error { _, err := c.Job(t.Context(), 99); return err }, want{slurm.ErrNotFound, 2017, ""}},
		"resources-not-running":    {resources, want{slurm.ErrInvalid, 2085, "Job is not running"}},
		"resources-missing":        {resources, want{slurm.ErrNotFound, 2017, ""}},
		"allocate":                 {allocate, want{}},
		"allocate-busy":            {allocate, want{slurm.ErrBusy, 2016, "Requested nodes are busy"}},
		"allocate-too-big":         {allocate, want{slurm.ErrBusy, 2015, ""}},
		"allocate-not-first":       {allocate, want{slurm.ErrBusy, 2013, ""}},
		"submit-script-external":   {submit, want{slurm.ErrInvalid, 2189, "external job"}},
		"submit-unknown-partition": {submit, want{slurm.ErrInvalid, 2000, "Invalid partition name"}},
		"submit-unknown-node":      {submit, want{slurm.ErrNotFound, 2018, ""}},
		"submit-unknown-field":     {submit, want{}},
		"submit-timeout":           {submit, want{slurm.ErrUnavailable, 5004, "timed out"}},
		"update-job":               {update, want{}},
		"update-job-missing":       {update, want{slurm.ErrNotFound, 2017, ""}},
		"cancel":                   {cancel, want{}},
		"cancel-ended":             {cancel, want{}},
		"cancel-not-allowed":       {cancel, want{slurm.ErrAuth, 1, "Operation not permitted"}},
		"nodes":                    {func(c *Client) error { _, err := c.Nodes(t.Context()); return err }, want{}},
		"nodes-unchanged":          {func(c *Client) error { _, _, err := c.NodesSince(t.Context(), time.Unix(1, 0)); return err }, want{}},
		"node":                     {func(c *Client) error { _, err := c.Node(t.Context(), "x1"); return err }, want{}},
		"node-missing":             {func(c *Client) error { _, err := c.Node(t.Context(), "nope"); return err }, want{slurm.ErrNotFound, 0, "nope"}},
		"create-node":              {create, want{}},
		"create-node-exists":       {create, want{slurm.ErrInvalid, 2168, "already exists"}},
		"create-node-unknown-key":  {create, want{slurm.ErrInvalid, -1, ""}},
		"create-node-bad-value":    {create, want{slurm.ErrInvalid, -1, ""}},
		"create-node-not-allowed":  {create, want{slurm.ErrAuth, 2010, ""}},
		"update-node-missing":      {drain, want{slurm.ErrNotFound, 2018, ""}},
		"update-node-transition":   {drain, want{slurm.ErrInvalid, 2180, ""}},
		"delete-node":              {remove, want{}},
		"delete-node-missing":      {remove, want{slurm.ErrNotFound, 2018, ""}},
		"delete-node-busy":         {remove, want{slurm.ErrBusy, 2016, ""}},
		"partitions":               {func(c *Client) error { _, err := c.Partitions(t.Context()); return err }, want{}},
		"reconfigure":              {func(c *Client) error { return c.Reconfigure(t.Context()) }, want{}},
		"cancel-missing":           {cancel, want{}},
		"submit-no-json":           {submit, want{slurm.ErrInvalid, 0, "Failure during parsing"}},
		"submit-wrong-type":        {submit, want{slurm.ErrInvalid, 0, "Expected OpenAPI type=integer"}},
		"submit-down":              {submit, want{slurm.ErrUnavailable, 1800, "Unable to contact slurm controller"}},
		"submit-unknown-account":   {submit, want{slurm.ErrInvalid, 2045, "Invalid account"}},
		"diag":                     {func(c *Client) error { _, err := c.Diag(t.Context()); return err }, want{}},
		"licenses":                 {func(c *Client) error { _, err := c.Licenses(t.Context()); return err }, want{}},
	}
	maps.Copy(cases, moreCases(t))
	for name, tc := range cases {
		files, err := filepath.Glob("testdata/v*/" + name + ".http")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no recorded answer: %v", name, err)
		}
		for _, file := range files {
			version := filepath.Base(filepath.Dir(file))
			t.Run(version+"/"+name, func(t *testing.T) {
				tc.want.check(t, tc.call(serve(t, version, recorded(t, version, name))))
			})
		}
	}
}

func (w want) check(t *testing.T, err error) {
	t.Helper()
	if w.kind == nil {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var e *slurm.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *slurm.Error", err)
	}
	if !errors.Is(err, w.kind) || e.Code != w.code || !strings.Contains(e.Text, w.text) {
		t.Errorf("got %#v\nwant kind %v, code %d, text %q", e, w.kind, w.code, w.text)
	}
}

func TestPingTellsARefusedToken(t *testing.T) {
	_, err := serve(t, "v0.0.45", recorded(t, "v0.0.45", "ping-bad-token")).Ping(t.Context())
	if !errors.Is(err, slurm.ErrAuth) {
		t.Errorf("error %v, want ErrAuth", err)
	}
	for version, name := range map[string]string{"v0.0.45": "ping-down", "v0.0.44": "ping-bad-token"} {
		pings, err := serve(t, version, recorded(t, version, name)).Ping(t.Context())
		if err != nil || len(pings) != 1 || pings[0].Responding {
			t.Errorf("%s %s: %+v, %v, want one controller that doesn't respond", version, name, pings, err)
		}
	}
}

func TestRecordedContent(t *testing.T) {
	for _, version := range []string{"v0.0.43", "v0.0.44", "v0.0.45"} {
		t.Run(version, func(t *testing.T) {
			ctx := context.Background()
			job, err := serve(t, version, recorded(t, version, "job")).Job(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			if (job.SLUID == "") != (version == "v0.0.43") || job.SubmitTime.IsZero() || job.StartTime.IsZero() || !job.PreemptTime.IsZero() || job.ID == 0 {
				t.Errorf("job lacks identity or times: %+v", job)
			}
			diff := cmp.Diff([]any{slurm.StatesOf("RUNNING"), "a", "root", "ext", "x1", slurm.NumberOf(5), slurm.NumberOf(4), slurm.Number{}, true, ""},
				[]any{job.States, job.Name, job.User, job.Partition, job.Nodes, job.TimeLimit, job.CPUs, job.ArrayTaskID, job.External(), job.Reason})
			if diff != "" {
				t.Error(diff)
			}

			if version > "v0.0.43" {
				a, err := serve(t, version, recorded(t, version, "resources")).Allocation(ctx, job.ID)
				wantNode := slurm.NodeAllocation{Node: "x1", Sockets: 2, CoresPerSocket: 4, Cores: []int{0, 1}, Memory: 4000,
					GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{0, 1}}}}
				if diff := cmp.Diff(slurm.Allocation{JobID: job.ID, Nodes: []slurm.NodeAllocation{wantNode}}, a); diff != "" || err != nil {
					t.Errorf("%v\n%s", err, diff)
				}
			}

			nodes, err := serve(t, version, recorded(t, version, "nodes")).Nodes(ctx)
			wantNodes := []slurm.Node{{Name: "x1", Address: "127.0.0.1", Hostname: "x1", States: slurm.StatesOf("MIXED", "EXTERNAL", "DYNAMIC_NORM"),
				Partitions: []string{"ext"}, Features: []string{"ext"}, ActiveFeatures: []string{"ext"},
				CPUs: 16, Boards: 1, Sockets: 2, Cores: 4, Threads: 2, EffectiveCPUs: 16, RealMemory: 64000, AllocMemory: 4000, AllocCPUs: 4,
				GRES: "gpu:h200:4", GRESUsed: "gpu:h200:2(IDX:0-1)"}}
			if version == "v0.0.43" {
				wantNodes[0].States = slurm.StatesOf("MIXED", "DYNAMIC_NORM") // it has no word for EXTERNAL
			}
			if len(nodes) == 1 && nodes[0].LastBusy.IsZero() {
				t.Error("the node has no time at which it was last busy")
			}
			if diff := cmp.Diff(wantNodes, nodes, cmpopts.IgnoreFields(slurm.Node{}, "LastBusy")); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}

			parts, err := serve(t, version, recorded(t, version, "partitions")).Partitions(ctx)
			if err != nil || len(parts) != 1 || parts[0].Name != "ext" || parts[0].Nodes != "x1" || parts[0].NodeSets != "ns_ext" ||
				!parts[0].MaxTime.Infinite || !parts[0].State.Has("UP") || parts[0].TotalCPUs != 16 {
				t.Errorf("partitions %+v, %v", parts, err)
			}
		})
	}
}
