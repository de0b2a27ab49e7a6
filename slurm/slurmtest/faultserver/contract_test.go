package faultserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// step is a request that both servers get, in the state that the steps before left.
type step struct {
	method, path, body string
	// schema is what the elements of the answer's list are called in the OpenAPI document.
	schema string
	// token replaces the good one; "-" is none.
	token string
}

func steps() []step {
	job := func(rest string) string {
		return `{"job":{"flags":["EXTERNAL_JOB"],"name":"j","current_working_directory":"/tmp",` + rest + `}}`
	}
	const now, onBoth = `"immediate":true,`, `"partition":"ext","cpus_per_task":16,"minimum_nodes":2,"tasks_per_node":1`
	limit := `"time_limit":{"set":true,"infinite":false,"number":10},"memory_per_node":{"set":true,"infinite":false,"number":1000}`
	return []step{
		{method: "GET", path: "ping/", schema: "controller_ping"},
		{method: "GET", path: "diag/", schema: "stats_msg"},
		{method: "GET", path: "jobs/state/"},
		{method: "GET", path: "jobs/"},
		{method: "GET", path: "nodes/", schema: "node"},
		{method: "GET", path: "node/x1", schema: "node"},
		{method: "GET", path: "node/nope"},
		{method: "GET", path: "partitions/", schema: "partition_info"},
		{method: "GET", path: "shares"},
		{method: "POST", path: "job/allocate", body: job(now + `"partition":"ext","cpus_per_task":3,"tres_per_node":"gres/gpu:2",` + limit)},
		{method: "GET", path: "jobs/state/"},
		{method: "GET", path: "jobs/", schema: "job_info"},
		{method: "GET", path: "job/1", schema: "job_info"},
		{method: "GET", path: "resources/1", schema: "node_resource_layout"},
		{method: "GET", path: "nodes/", schema: "node"},
		{method: "POST", path: "job/allocate", body: job(now + onBoth)},
		{method: "POST", path: "job/allocate", body: job(now + `"partition":"ext","minimum_nodes":3`)},
		{method: "POST", path: "job/allocate", body: job(now + `"partition":"nope"`)},
		{method: "POST", path: "job/submit", body: job(`"cpus_per_task":1`)},
		{method: "POST", path: "job/submit", body: job(`"partition":"nope"`)},
		{method: "POST", path: "job/submit", body: job(`"partition":"ext","required_nodes":["nope"]`)},
		{method: "POST", path: "job/submit", body: `{"script":"#!/bin/sh\n",` + job(`"partition":"ext"`)[1:]},
		{method: "POST", path: "job/submit", body: `{"job":`},
		{method: "POST", path: "job/submit", body: job(onBoth)},
		{method: "POST", path: "job/allocate", body: job(now + `"partition":"ext"`)},
		{method: "GET", path: "job/4", schema: "job_info"},
		{method: "GET", path: "job/99"},
		{method: "GET", path: "resources/4"},
		{method: "GET", path: "resources/99"},
		{method: "POST", path: "job/4", body: `{"comment":"changed"}`},
		{method: "POST", path: "job/99", body: `{"comment":"changed"}`},
		{method: "POST", path: "node/x2", body: `{"state":["DRAIN"],"reason":"why","comment":"","extra":"{}"}`},
		{method: "GET", path: "node/x2", schema: "node"},
		{method: "POST", path: "node/x2", body: `{"state":["UNDRAIN"]}`},
		{method: "POST", path: "node/x2", body: `{"state":["RESUME"]}`},
		{method: "POST", path: "node/nope", body: `{"state":["DRAIN"],"reason":"why"}`},
		{method: "GET", path: "nodes/?update_time=4000000000"},
		{method: "GET", path: "nodes/?update_time=1", schema: "node"},
		{method: "POST", path: "new/node/", body: `{"node_conf":"NodeName=\"x3\" NodeAddr=\"127.0.0.1\" CPUs=\"4\" Feature=\"ext\" State=\"EXTERNAL\""}`},
		{method: "GET", path: "node/x3", schema: "node"},
		{method: "POST", path: "new/node/", body: `{"node_conf":"NodeName=x3 NodeAddr=127.0.0.1 State=EXTERNAL"}`},
		{method: "POST", path: "new/node/", body: `{"node_conf":"NodeName=x4 NodeAddr=127.0.0.1 Unheard=1 State=EXTERNAL"}`},
		{method: "POST", path: "new/node/", body: `{"node_conf":"NodeName=x4 NodeAddr=127.0.0.1 State=BOGUS"}`},
		{method: "GET", path: "partitions/", schema: "partition_info"},
		{method: "DELETE", path: "node/x1"},
		{method: "DELETE", path: "node/x3"},
		{method: "DELETE", path: "node/nope"},
		{method: "DELETE", path: "jobs/", body: `{"jobs":["4","99"]}`, schema: "kill_jobs_resp_job"},
		{method: "DELETE", path: "jobs/", body: `{"jobs":["4"]}`, schema: "kill_jobs_resp_job"},
		{method: "DELETE", path: "job/1"},
		{method: "GET", path: "job/1", schema: "job_info"},
		{method: "GET", path: "resources/1"},
		{method: "GET", path: "jobs/state/"},
		{method: "GET", path: "jobs/state/", token: "garbage"},
		{method: "GET", path: "jobs/", token: "garbage"},
		{method: "GET", path: "nodes/", token: "garbage"},
		{method: "GET", path: "job/1", token: "garbage"},
		{method: "POST", path: "job/submit", body: job(`"partition":"ext"`), token: "garbage"},
		{method: "POST", path: "node/x1", body: `{"state":["DRAIN"],"reason":"why"}`, token: "garbage"},
		{method: "GET", path: "jobs/state/", token: "-"},
		{method: "PUT", path: "jobs/state/"},
		{method: "GET", path: "../v0.0.1/ping/"},
		{method: "GET", path: "reconfigure/"},
	}
}

// TestContract holds the server's answers against a real Slurm's.
func TestContract(t *testing.T) {
	for _, version := range []string{"v0.0.44", "v0.0.45"} {
		t.Run(version, func(t *testing.T) {
			cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1"), slurmtest.ExternalNode("x2")}})
			token, err := cluster.Tokens(t, "root").Token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s := faultserver.New(t, faultserver.Options{})
			s.AcceptTokens(token)
			s.Change(func(m *faultserver.Model) { m.AddNode("x1"); m.AddNode("x2") })
			fake := s.Listen(t)
			for i, step := range steps() {
				name := fmt.Sprintf("step %d: %s %s %s", i, step.method, step.path, step.body)
				if step.token == "" {
					step.token = token
				}
				compare(t, name, step, ask(t, cluster.URL, version, step), ask(t, fake, version, step))
			}
		})
	}
}

type reply struct {
	status int
	kind   string
	text   string
	body   map[string]any
}

func ask(t *testing.T, base, version string, s step) reply {
	t.Helper()
	url := base + "/slurm/" + version + "/" + s.path
	if other, ok := strings.CutPrefix(s.path, "../"); ok {
		url = base + "/slurm/" + other
	}
	req, err := http.NewRequestWithContext(t.Context(), s.method, url, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	if s.token != "-" {
		req.Header.Set("X-SLURM-USER-TOKEN", s.token)
	}
	if s.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req) //nolint:forbidigo // the test has a deadline
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: res.StatusCode, kind: res.Header.Get("Content-Type"), text: string(text)}
	if r.kind == "application/json" {
		if err := json.Unmarshal(text, &r.body); err != nil {
			t.Errorf("%s %s: no JSON: %v", s.method, url, err)
		}
	}
	return r
}

func compare(t *testing.T, name string, s step, real, fake reply) {
	t.Helper()
	if real.status != fake.status || real.kind != fake.kind {
		t.Errorf("%s: a real Slurm says %d %q %.300s, this server %d %q %.300s", name, real.status, real.kind, real.text, fake.status, fake.kind, fake.text)
		return
	}
	for _, member := range []string{"errors", "status"} {
		if diff := cmp.Diff(real.body[member], fake.body[member]); diff != "" {
			t.Errorf("%s: %s (-real +this server):\n%s", name, member, diff)
		}
	}
	for _, r := range []reply{real, fake} {
		delete(r.body, "warnings") // Slurm warns of what it has no database for
	}
	read := readKeys(t)
	check := checker{name: name, schema: s.schema, keys: func(schema string) []string { return read[schema] }}
	for _, p := range check.differ("", s.schema, real.body, fake.body, true) {
		t.Error(p)
	}
}

// readKeys gives the names that our client reads of each schema, as the plan of the generated types says.
func readKeys(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../../rest/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Properties map[string][]string `json:"properties"`
	}
	if err := json.Unmarshal(data, &plan); err != nil {
		t.Fatal(err)
	}
	for _, keys := range plan.Properties {
		for i := range keys {
			keys[i] = strings.TrimPrefix(keys[i], "?") // not in all versions; the real answer decides
		}
	}
	return plan.Properties
}

// checker compares forms: names and types.
type checker struct {
	name, schema string
	keys         func(schema string) []string
}

// differ tells how fake's form differs: it may lack what our client doesn't
// read, and nothing else. whole is for an object that must have all members.
func (c checker) differ(at, schema string, real, fake any, whole bool) (problems []string) {
	if kind(real) != kind(fake) {
		return []string{fmt.Sprintf("%s: %s is %s in a real answer, %s in this server's", c.name, at, kind(real), kind(fake))}
	}
	switch fake := fake.(type) {
	case map[string]any:
		real := real.(map[string]any)
		for key, v := range fake {
			if _, ok := real[key]; !ok {
				problems = append(problems, fmt.Sprintf("%s: %s.%s is not in a real answer", c.name, at, key))
				continue
			}
			below := schema
			if at != "" {
				below = schema + "." + key
			}
			problems = append(problems, c.differ(at+"."+key, below, real[key], v, false)...)
		}
		for key := range real {
			if _, ok := fake[key]; !ok && (whole || slices.Contains(c.keys(schema), key)) {
				problems = append(problems, fmt.Sprintf("%s: %s.%s is only in a real answer", c.name, at, key))
			}
		}
	case []any:
		real := real.([]any)
		if len(fake) > 0 && kind(fake[0]) == "text" {
			return nil // words: which ones is Slurm's business
		}
		if strings.Contains(at, ".rpcs_by_") {
			return nil // slurmctld's own count of calls
		}
		if len(real) != len(fake) {
			return []string{fmt.Sprintf("%s: %s has %d elements in a real answer, %d in this server's", c.name, at, len(real), len(fake))}
		}
		for i := range fake {
			problems = append(problems, c.differ(at, schema, real[i], fake[i], false)...)
		}
	}
	return problems
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a truth value"
	case float64:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	}
	return "an object"
}
