package rest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// S095: a failed read of one node says nothing of another, nor of the next read.
func TestFailureIsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", func(c *rest.Config) { c.Retries = -1 })
		s.Fail(faultserver.Node, faultserver.Refuse(500, -1, "Unspecified error"))
		if _, err := c.Node(t.Context(), "x1"); !errors.Is(err, slurm.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		for _, name := range []string{"x2", "x1"} {
			if _, err := c.Node(t.Context(), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// S100: an error within a 200 is an error, with Slurm's number, text and source.
func TestErrorsWithin200(t *testing.T) {
	entry := func(code, text string) string {
		return `"errors":[{"description":"Tried","error_number":` + code + `,"error":"` + text + `","source":"somewhere()"}]`
	}
	cases := map[string]struct {
		body string
		call faultserver.Call
		want error
		code int
	}{
		"unknown node":           {`{` + entry("2018", "Invalid node name specified") + `}`, faultserver.Node, slurm.ErrNotFound, 2018},
		"unknown node, number 0": {`{` + entry("0", "No error") + `}`, faultserver.Node, slurm.ErrNotFound, 0},
		"empty list, number 0":   {`{"nodes":[],` + entry("0", "No error") + `}`, faultserver.Node, slurm.ErrUnavailable, 0},
		"unknown job":            {`{"jobs":[],` + entry("2017", "Invalid job id specified") + `}`, faultserver.Job, slurm.ErrNotFound, 2017},
		"access denied":          {`{"jobs":[],` + entry("2002", "Access/permission denied") + `}`, faultserver.Job, slurm.ErrAuth, 2002},
		"controller away":        {`{"jobs":[],` + entry("1800", "Unable to contact slurm controller") + `}`, faultserver.Job, slurm.ErrUnavailable, 1800},
		"partly filled":          {`{"jobs":[{"job_id":1,"job_state":["RUNNING"]}],` + entry("1800", "Unable to contact") + `}`, faultserver.Job, slurm.ErrUnavailable, 1800},
		"partly filled list":     {`{"jobs":[{"job_id":"1","state":["RUNNING"]}],` + entry("-1", "Unspecified error") + `}`, faultserver.JobStates, slurm.ErrUnavailable, -1},
		"empty without errors":   {`{"nodes":[],"errors":[]}`, faultserver.Node, slurm.ErrUnavailable, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := faulty(t, "v0.0.45", nil)
				s.FailAlways(tc.call, faultserver.Garbage(tc.body))
				op := operations()[slices.IndexFunc(operations(), func(o operation) bool { return o.call == tc.call })]
				err := op.do(t.Context(), c)
				var e *slurm.Error
				if !errors.As(err, &e) || !errors.Is(err, tc.want) || e.Code != tc.code {
					t.Fatalf("error %v, want %v with number %d", err, tc.want, tc.code)
				}
				if strings.Contains(tc.body, "somewhere") && (e.Source != "somewhere()" || !strings.Contains(e.Text, "Tried")) {
					t.Errorf("text %q, source %q", e.Text, e.Source)
				}
			})
		})
	}
}

// S100: warnings alone are a success, and told once.
func TestWarningsAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned []string
		s, c := faulty(t, "v0.0.45", func(c *rest.Config) { c.Warn = func(_, warning string) { warned = append(warned, warning) } })
		s.Fail(faultserver.JobStates, faultserver.Garbage(`{"jobs":[],"errors":[],"warnings":[{"description":"Ignoring unknown field","source":""}]}`))
		if _, err := c.JobStates(t.Context()); err != nil || !slices.Equal(warned, []string{"Ignoring unknown field"}) {
			t.Errorf("%v, warnings %q", err, warned)
		}
	})
}

// S104: the newest version that both sides know is spoken, also after the server was replaced.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "", nil)
		for _, tc := range []struct {
			offered []string
			want    string
		}{
			{[]string{"v0.0.42", "v0.0.43", "v0.0.44"}, "v0.0.44"},
			{[]string{"v0.0.44", "v0.0.45"}, "v0.0.45"}, // the one in use is still there
			{[]string{"v0.0.45", "v0.0.46"}, "v0.0.45"},
			{[]string{"v0.0.44"}, "v0.0.44"}, // and back
		} {
			s.Down()
			if _, err := c.JobStates(t.Context()); !errors.Is(err, slurm.ErrUnavailable) {
				t.Errorf("while the server is replaced: %v", err)
			}
			s.Heal()
			s.Offer(tc.offered...)
			if _, err := c.JobStates(t.Context()); err != nil {
				t.Errorf("offered %q: %v", tc.offered, err)
			}
			if got, err := c.Version(t.Context()); err != nil || got != tc.want {
				t.Errorf("offered %q, chosen %q, %v", tc.offered, got, err)
			}
		}
		s.Offer("v0.0.40")
		// The first failure says that the version in use is gone; it is tried again.
		_, err := c.JobStates(t.Context())
		if !errors.Is(err, slurm.ErrInvalid) || !strings.Contains(err.Error(), "v0.0.45, v0.0.44") {
			t.Errorf("nothing in common: %v", err)
		}
	})
}

// S105: what the document calls required may be missing, and a word may be new.
func TestReadingWhatTheDocumentDoesNotSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", nil)
		ctx := t.Context()
		s.Fail(faultserver.Nodes, faultserver.Garbage(`{"nodes":[{"name":"n1","state":["IDLE","NEW_WORD"],"cpus":4,"cpus":8,"features":"a,b"}],"errors":[]}`))
		nodes, err := c.Nodes(ctx)
		if err != nil || len(nodes) != 1 || !nodes[0].States.Has("NEW_WORD", "IDLE") || nodes[0].GRESUsed != "" || !slices.Equal(nodes[0].Features, []string{"a", "b"}) {
			t.Errorf("nodes %+v, %v", nodes, err)
		}
		s.Fail(faultserver.Jobs, faultserver.Garbage(`{"jobs":[{"job_id":7,"nodes":null,"job_state":["PENDING"],"end_time":null}],"errors":[]}`))
		jobs, err := c.Jobs(ctx)
		if err != nil || len(jobs) != 1 || jobs[0].Nodes != "" || !jobs[0].EndTime.IsZero() {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		s.Fail(faultserver.Partitions, faultserver.Garbage(`{"partitions":[{"name":"p","qos":{},"partition":{"state":["UP"]}}],"errors":[]}`))
		parts, err := c.Partitions(ctx)
		if err != nil || len(parts) != 1 || parts[0].Name != "p" {
			t.Errorf("partitions %+v, %v", parts, err)
		}
		// A held job is submitted; that it is held is no failure.
		s.Fail(faultserver.Submit, faultserver.Garbage(`{"job_id":9,"step_id":"batch","errors":[{"error_number":0,"error":"Job is in held state, pending scheduler release"}]}`))
		if id, err := c.Submit(ctx, request("held", 1)); err != nil || id != 9 {
			t.Errorf("a held job: %d, %v", id, err)
		}
		// The only form of a time that the server takes.
		s.Requests()
		if _, _, err := c.NodesSince(ctx, time.Unix(4_000_000_000, 0)); err != nil {
			t.Error(err)
		}
		if q := s.Requests()[0].Query; q != "update_time=4000000000" {
			t.Errorf("the time is asked for as %q", q)
		}
	})
}

// S107: an unknown state is no end, and one job is asked for by its id.
func TestStatesAndSingleJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", nil)
		for words, ended := range map[string]bool{`"COMPLETED"`: true, `"RUNNING","CONFIGURING"`: false, `"NEW_STATE"`: false, ``: false, `"COMPLETING","RUNNING"`: false} {
			s.Fail(faultserver.Job, faultserver.Garbage(`{"jobs":[{"job_id":1,"job_state":[`+words+`]}],"errors":[]}`))
			if j, err := c.Job(t.Context(), 1); err != nil || j.States.JobEnded() != ended {
				t.Errorf("[%s]: ended %v, %v, want %v", words, j.States.JobEnded(), err, ended)
			}
		}
		s.Requests()
		if _, err := c.Job(t.Context(), 2); err != nil {
			t.Error(err)
		}
		if r := s.Requests(); len(r) != 1 || r[0].Call != faultserver.Job || r[0].Target != "2" {
			t.Errorf("one job was asked for by %+v", r)
		}
		// Another job's record is no answer.
		s.Fail(faultserver.Job, faultserver.Garbage(`{"jobs":[{"job_id":77,"job_state":["FAILED"]}],"errors":[]}`))
		if _, err := c.Job(t.Context(), 1); !errors.Is(err, slurm.ErrUnavailable) {
			t.Errorf("another job's record: %v", err)
		}
	})
}

// S109: what isn't JSON, though some servers send it, is an error and no panic.
func TestNotANumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", nil)
		for _, text := range []string{"NaN", "Infinity", "-Infinity", "1e999", "18446744073709551614"} {
			s.FailAlways(faultserver.Nodes, faultserver.Garbage(`{"nodes":[{"name":"n1","real_memory":`+text+`}],"errors":[]}`))
			if nodes, err := c.Nodes(t.Context()); !errors.Is(err, slurm.ErrUnavailable) || nodes != nil {
				t.Errorf("%s: %+v, %v", text, nodes, err)
			}
		}
	})
}

// A cancellation that Slurm refuses for some of the jobs is refused for those.
func TestStatusOfCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := faulty(t, "v0.0.45", nil)
		for code, want := range map[int]error{2002: slurm.ErrAuth, 2017: nil, 2021: nil} {
			s.Fail(faultserver.CancelJobs, faultserver.RefuseJobs(code, 1))
			if err := c.CancelJobs(t.Context(), 1, 2); !errors.Is(err, want) {
				t.Errorf("status %d: %v, want %v", code, err, want)
			}
		}
	})
}

// A rotated token is read anew when the old one is refused, and the call made once more.
func TestRotatedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &rotating{}
		s, c := faulty(t, "v0.0.45", func(c *rest.Config) { c.Tokens = tokens })
		s.AcceptTokens("0")
		if _, err := c.JobStates(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.AcceptTokens("1")
		if _, err := c.Submit(t.Context(), request("j", 1)); err != nil {
			t.Errorf("after the rotation: %v", err)
		}
		s.AcceptTokens("none of ours")
		s.Requests()
		if _, err := c.JobStates(t.Context()); !errors.Is(err, slurm.ErrAuth) || len(s.Requests()) != 2 {
			t.Errorf("a token that stays refused: %v", err)
		}
	})
}

// rotating gives another token each time that the last one was refused.
type rotating struct{ refused int }

func (r *rotating) Token(context.Context) (string, error) { return strconv.Itoa(r.refused), nil }
func (r *rotating) Renew()                                { r.refused++ }
