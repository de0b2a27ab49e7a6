package rest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

var record = flag.Bool("record", false, "write the recorded answers in testdata anew from the running Slurm")

// step is one request of the scenario. Without a name its answer isn't kept.
type step struct {
	name, method, path, body string
	// token is "bad" or "none", or the name of a user; root by default.
	token string
	// since is the oldest version that has it.
	since string
}

const (
	jobA   = `"name":"a","partition":"ext","cpus_per_task":4,"memory_per_node":{"set":true,"number":4000},"tres_per_node":"gres/gpu:2","time_limit":{"set":true,"number":5}`
	place  = `"current_working_directory":"/tmp","environment":["A=B"],"flags":["EXTERNAL_JOB"]`
	nodeY  = `NodeName=\"y1\" NodeAddr=\"127.0.0.1\" CPUs=\"2\" RealMemory=\"1000\" Feature=\"ext\" State=\"EXTERNAL\"`
	window = `"start_time":{"set":true,"number":2000000000},"duration":{"set":true,"number":60}`
)

// scenario makes one answer of each kind. It doesn't cancel another user's job, which stops
// slurmctld for good; testdata has such an answer from elsewhere.
var scenario = []step{
	{name: "ping", path: "slurm/ping/"},
	{name: "ping-bad-token", path: "slurm/ping/", token: "bad"},
	{name: "no-token", path: "slurm/jobs/state/", token: "none"},
	{name: "bad-token", path: "slurm/jobs/state/", token: "bad"},
	{name: "unknown-url", path: "slurm/nothing/"},
	{name: "allocate", method: "POST", path: "slurm/job/allocate", body: `{"job":{` + jobA + `,` + place + `,"immediate":true}}`},
	{name: "allocate-busy", method: "POST", path: "slurm/job/allocate", body: `{"job":{"partition":"ext","cpus_per_task":16,` + place + `,"immediate":true}}`},
	{name: "allocate-too-big", method: "POST", path: "slurm/job/allocate", body: `{"job":{"partition":"ext","cpus_per_task":64,` + place + `,"immediate":true}}`},
	{name: "job", path: "slurm/job/1"},
	{name: "job-missing", path: "slurm/job/99"},
	{name: "jobs", path: "slurm/jobs/"},
	{name: "states", path: "slurm/jobs/state/"},
	{name: "resources", path: "slurm/resources/1", since: "v0.0.44"},
	{name: "resources-missing", path: "slurm/resources/99", since: "v0.0.44"},
	{name: "nodes", path: "slurm/nodes/"},
	{name: "nodes-unchanged", path: "slurm/nodes/?update_time=3000000000"},
	{name: "node", path: "slurm/node/x1"},
	{name: "node-missing", path: "slurm/node/nope"},
	{name: "partitions", path: "slurm/partitions/"},
	{name: "diag", path: "slurm/diag/"},
	{name: "licenses", path: "slurm/licenses/"},
	{name: "update-job", method: "POST", path: "slurm/job/1", body: `{"comment":"hi"}`},
	{name: "update-job-missing", method: "POST", path: "slurm/job/99", body: `{"comment":"hi"}`},
	{name: "submit-script-external", method: "POST", path: "slurm/job/submit", body: `{"script":"#!/bin/sh\n","job":{"partition":"ext",` + place + `}}`},
	{name: "submit-unknown-partition", method: "POST", path: "slurm/job/submit", body: `{"job":{"partition":"nope",` + place + `}}`},
	{name: "submit-unknown-node", method: "POST", path: "slurm/job/submit", body: `{"job":{"partition":"ext","required_nodes":["nope"],` + place + `}}`},
	{name: "submit-unknown-account", method: "POST", path: "slurm/job/submit", body: `{"job":{"partition":"ext","account":"nope",` + place + `}}`},
	{name: "submit-unknown-field", method: "POST", path: "slurm/job/submit", body: `{"job":{"nam":"x","partition":"ext","cpus_per_task":16,"exclusive":"true",` + place + `}}`},
	{name: "allocate-not-first", method: "POST", path: "slurm/job/allocate", body: `{"job":{"partition":"ext","cpus_per_task":1,` + place + `,"immediate":true}}`},
	{name: "create-node", method: "POST", path: "slurm/new/node/", body: `{"node_conf":"` + nodeY + `"}`, since: "v0.0.44"},
	{name: "create-node-exists", method: "POST", path: "slurm/new/node/", body: `{"node_conf":"` + nodeY + `"}`, since: "v0.0.44"},
	{name: "create-node-unknown-key", method: "POST", path: "slurm/new/node/", body: `{"node_conf":"NodeName=\"y2\" Nothing=\"1\" State=\"EXTERNAL\""}`, since: "v0.0.44"},
	{name: "create-node-bad-value", method: "POST", path: "slurm/new/node/", body: `{"node_conf":"NodeName=\"y2\" CPUs=\"many\" State=\"EXTERNAL\""}`, since: "v0.0.44"},
	{name: "create-node-not-allowed", method: "POST", path: "slurm/new/node/", body: `{"node_conf":"NodeName=\"y2\" State=\"EXTERNAL\""}`, token: "alice", since: "v0.0.44"},
	{name: "update-node-missing", method: "POST", path: "slurm/node/nope", body: `{"state":["DRAIN"],"reason":"r"}`},
	{name: "update-node-transition", method: "POST", path: "slurm/node/x1", body: `{"state":["RESUME"]}`},
	{name: "delete-node-busy", method: "DELETE", path: "slurm/node/x1"},
	{name: "delete-node", method: "DELETE", path: "slurm/node/y1", since: "v0.0.44"},
	{name: "delete-node-missing", method: "DELETE", path: "slurm/node/y1"},

	{name: "create-reservation", method: "POST", path: "slurm/reservation", body: `{"name":"r1","node_list":["x1"],"flags":["MAINT","IGNORE_JOBS"],"users":["root"],` + window + `}`},
	{name: "create-reservation-unknown-node", method: "POST", path: "slurm/reservation", body: `{"name":"r2","node_list":["nope"],"users":["root"],` + window + `}`},
	{name: "reservations", path: "slurm/reservations/"},
	{name: "reservation-missing", path: "slurm/reservation/nope"},
	{name: "delete-reservation", method: "DELETE", path: "slurm/reservation/r1"},
	{name: "delete-reservation-missing", method: "DELETE", path: "slurm/reservation/r1"},

	{name: "create-account", method: "POST", path: "slurmdb/accounts_association/", body: `{"association_condition":{"accounts":["phys"]},"account":{"description":"Physics","organization":"uni"}}`},
	{name: "create-account-exists", method: "POST", path: "slurmdb/accounts_association/", body: `{"association_condition":{"accounts":["phys"]},"account":{"description":"Physics","organization":"uni"}}`},
	{name: "create-account-unknown-parent", method: "POST", path: "slurmdb/accounts_association/", body: `{"association_condition":{"accounts":["chem"],"association":{"parent":"nope"}},"account":{"description":"c","organization":"uni"}}`},
	{name: "accounts", path: "slurmdb/accounts/"},
	{name: "account-missing", path: "slurmdb/account/nope"},
	{name: "create-user", method: "POST", path: "slurmdb/users_association/", body: `{"association_condition":{"accounts":["phys"],"users":["alice"]},"user":{}}`},
	{name: "create-user-no-account", method: "POST", path: "slurmdb/users_association/", body: `{"association_condition":{"accounts":["nope"],"users":["bob"]},"user":{}}`},
	{name: "create-user-not-allowed", method: "POST", path: "slurmdb/users_association/", body: `{"association_condition":{"accounts":["phys"],"users":["bob"]},"user":{}}`, token: "alice"},
	{name: "users", path: "slurmdb/users/?with_assocs"},
	{name: "user-missing", path: "slurmdb/user/nope"},
	{method: "POST", path: "slurmdb/associations/", body: `{"associations":[{"cluster":"test","account":"phys","user":"alice","max":{"jobs":{"active":{"set":true,"number":4}},"tres":{"per":{"job":[{"type":"cpu","count":8},{"type":"gres","name":"gpu","count":1}]}}}}]}`},
	{name: "associations", path: "slurmdb/associations/"},
	{name: "shares", path: "slurm/shares"},
	{name: "put-qos", method: "POST", path: "slurmdb/qos/", body: `{"qos":[{"name":"high","description":"h","flags":["DENY_LIMIT"],"priority":{"set":true,"number":10},"preempt":{"list":["normal"],"mode":["CANCEL"]},"usage_factor":{"set":true,"number":2.5},"limits":{"grace_time":30,"max":{"wall_clock":{"per":{"job":{"set":true,"number":60}}},"tres":{"per":{"user":[{"type":"cpu","count":4}]}}}}}]}`},
	{name: "put-qos-unknown-preempt", method: "POST", path: "slurmdb/qos/", body: `{"qos":[{"name":"high","preempt":{"list":["nope"]}}]}`},
	{name: "qos", path: "slurmdb/qos/"},
	{name: "qos-missing", path: "slurmdb/qos/nope"},
	{name: "delete-qos", method: "DELETE", path: "slurmdb/qos/high"},
	{name: "delete-qos-missing", method: "DELETE", path: "slurmdb/qos/high"},
	{name: "delete-association", method: "DELETE", path: "slurmdb/associations/?cluster=test&account=phys&user=alice"},
	{name: "delete-user", method: "DELETE", path: "slurmdb/user/alice"},
	{name: "delete-account", method: "DELETE", path: "slurmdb/account/phys"},

	{name: "resources-not-running", path: "slurm/resources/{pending}", since: "v0.0.44"},
	{name: "cancel", method: "DELETE", path: "slurm/jobs/", body: `{"jobs":["1"]}`},
	{name: "cancel-ended", method: "DELETE", path: "slurm/jobs/", body: `{"jobs":["1"]}`},
	{name: "cancel-missing", method: "DELETE", path: "slurm/jobs/", body: `{"jobs":["99"]}`},
	{name: "submit-no-json", method: "POST", path: "slurm/job/submit", body: `{"job":{`},
	{name: "submit-wrong-type", method: "POST", path: "slurm/job/submit", body: `{"job":{"partition":"ext","cpus_per_task":"many",` + place + `}}`},
	{name: "reconfigure", path: "slurm/reconfigure/"},
}

// TestRecord holds the recorded answers against a running Slurm's: same status, same
// error number. With -record it writes them anew.
func TestRecord(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true, Config: []string{"Licenses=matlab:4"},
				ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
			p := player{t: t, cluster: cluster, version: version}
			for _, s := range scenario {
				if version < s.since {
					continue
				}
				if p.pending != 0 {
					s.path = strings.ReplaceAll(s.path, "{pending}", fmt.Sprint(p.pending))
				}
				p.play(s)
			}
			if *record {
				cluster.Kill(t, "slurmctld")
				p.play(step{name: "down", path: "slurm/jobs/state/"})
				p.play(step{name: "ping-down", path: "slurm/ping/"})
				p.play(step{name: "submit-down", method: "POST", path: "slurm/job/submit", body: `{"job":{"partition":"ext",` + place + `}}`})
			}
		})
	}
}

// caller is where an answer names the connection that it goes to.
var caller = regexp.MustCompile(`"source":"[0-9.]+:[0-9]+\(fd:[0-9]+\)"`)

type player struct {
	t       *testing.T
	cluster *slurmtest.Cluster
	version string
	// pending is a job that waits.
	pending uint32
}

func (p *player) play(s step) {
	p.t.Helper()
	plugin, path, _ := strings.Cut(s.path, "/")
	req, err := http.NewRequestWithContext(p.t.Context(), s.method, p.cluster.URL+"/"+plugin+"/"+p.version+"/"+path, strings.NewReader(s.body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	switch s.token {
	case "none":
	case "bad":
		req.Header.Set("X-SLURM-USER-TOKEN", "garbage")
	default:
		user := s.token
		if user == "" {
			user = "root"
		}
		token, err := p.cluster.Tokens(p.t, user).Token(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("X-SLURM-USER-TOKEN", token)
	}
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		p.t.Fatalf("%s: %v", s.name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatalf("%s: %v", s.name, err)
	}
	if strings.HasPrefix(s.name, "submit-unknown-field") {
		var made struct {
			JobID uint32 `json:"job_id"`
		}
		if err := json.Unmarshal(body, &made); err != nil {
			p.t.Fatal(err)
		}
		p.pending = made.JobID
	}
	if s.name == "" {
		if res.StatusCode != http.StatusOK {
			p.t.Errorf("%s %s: %s\n%s", s.method, s.path, res.Status, body)
		}
		return
	}
	p.keep(s.name, res, body)
}

// keep writes an answer, or holds it against the one that was written before.
func (p *player) keep(name string, res *http.Response, body []byte) {
	p.t.Helper()
	file := filepath.Join("testdata", p.version, name+".http")
	if *record {
		body = caller.ReplaceAll(body, []byte(`"source":"127.0.0.1:1(fd:1)"`)) // so that only what matters differs the next time
		var b bytes.Buffer
		fmt.Fprintf(&b, "HTTP/1.1 %s\n", res.Status)
		if res.StatusCode != http.StatusNotModified {
			fmt.Fprintf(&b, "Content-Length: %d\nContent-Type: %s\n", len(body), res.Header.Get("Content-Type"))
		}
		b.WriteString("\n")
		b.Write(body)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	before, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		p.t.Fatalf("%s: %v", file, err)
	}
	defer before.Body.Close()
	old, err := io.ReadAll(before.Body)
	if err != nil {
		p.t.Fatalf("%s: %v", file, err)
	}
	if before.StatusCode != res.StatusCode || number(old) != number(body) {
		p.t.Errorf("%s: recorded is status %d with error %d, this Slurm answers status %d with error %d; look at it, then run the test with -record\n%s",
			file, before.StatusCode, number(old), res.StatusCode, number(body), body)
	}
}

// number returns the first error number of an answer, 0 for none.
func number(body []byte) int {
	var answer struct {
		Errors []struct {
			Number int `json:"error_number"`
		} `json:"errors"`
		Status []struct {
			Error struct {
				Code int `json:"code"`
			} `json:"error"`
		} `json:"status"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0
	}
	for _, e := range answer.Errors {
		return e.Number
	}
	for _, s := range answer.Status {
		return s.Error.Code
	}
	return 0
}
