package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

func answerJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

const noStates = `{"jobs":[],"errors":[],"warnings":[]}`

// newClient returns a client of h that chooses its version itself.
func newClient(t *testing.T, h http.HandlerFunc, change func(*Config)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	config := Config{URL: s.URL, Tokens: StaticToken("t")}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestVersionIsChosen(t *testing.T) {
	cases := map[string]struct {
		offered []string
		want    string
	}{
		"newest of both":   {[]string{"v0.0.42", "v0.0.44", "v0.0.45"}, "v0.0.45"},
		"older server":     {[]string{"v0.0.43", "v0.0.44"}, "v0.0.44"},
		"oldest server":    {[]string{"v0.0.42", "v0.0.43"}, "v0.0.43"},
		"newer server":     {[]string{"v0.0.45", "v0.0.46"}, "v0.0.45"},
		"nothing in share": {[]string{"v0.0.40"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				for _, v := range tc.offered {
					if r.URL.Path == "/slurm/"+v+"/ping/" {
						answerJSON(w, 200, `{"pings":[]}`)
						return
					}
				}
				w.WriteHeader(http.StatusNotFound)
			}, nil)
			got, err := c.Version(t.Context())
			if tc.want == "" {
				if !errors.Is(err, slurm.ErrInvalid) || !strings.Contains(err.Error(), "v0.0.45, v0.0.44, v0.0.43") {
					t.Errorf("error %v doesn't tell the versions", err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("version %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestVersionIsChosenAgainAfterAnUpgrade(t *testing.T) {
	var offered atomic.Value
	offered.Store("v0.0.44")
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/slurm/"+offered.Load().(string)+"/"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(r.URL.Path, "/ping/"):
			answerJSON(w, 200, `{"pings":[]}`)
		default:
			answerJSON(w, 200, noStates)
		}
	}, nil)
	if _, err := c.JobStates(t.Context()); err != nil {
		t.Fatal(err)
	}
	offered.Store("v0.0.45")
	if _, err := c.JobStates(t.Context()); err != nil { // a read: tried again with the new version
		t.Fatal(err)
	}
	if got, _ := c.Version(t.Context()); got != "v0.0.45" {
		t.Errorf("version %q after the upgrade", got)
	}
}

func TestOnlyReadsAreRetried(t *testing.T) {
	var calls atomic.Int32
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answerJSON(w, 200, noStates)
	}, func(c *Config) { c.Version = "v0.0.45" })
	if _, err := c.JobStates(t.Context()); err != nil || calls.Load() != 3 {
		t.Errorf("a read: %v after %d calls, want success after 3", err, calls.Load())
	}
	calls.Store(0)
	if _, err := c.Submit(t.Context(), external); !errors.Is(err, slurm.ErrUnavailable) || calls.Load() != 1 {
		t.Errorf("a write: %v after %d calls, want ErrUnavailable after 1", err, calls.Load())
	}
}

// TestWritesAreMadeOnce has each write meet a server that says "not now".
func TestWritesAreMadeOnce(t *testing.T) {
	var writes atomic.Int32
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		// What a write looks up first is there.
		if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/reconfigure/") {
			answerJSON(w, 200, `{"accounts":[{"name":"a"}],"users":[{"name":"a"}],"associations":[],"qos":[{"name":"a"}],"reservations":[{"name":"a"}],"errors":[],
				"warnings":[],"meta":{"slurm":{"release":"26.05.5"}}}`)
			return
		}
		writes.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}, func(c *Config) { c.Version = "v0.0.45" })
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Submit":            func() error { _, err := c.Submit(ctx, external); return err },
		"AllocateNow":       func() error { _, err := c.AllocateNow(ctx, external); return err },
		"UpdateJob":         func() error { return c.UpdateJob(ctx, 1, external) },
		"CancelJobs":        func() error { return c.CancelJobs(ctx, 1) },
		"CreateNode":        func() error { return c.CreateNode(ctx, slurm.NodeCreate{Name: "a", Address: "::1"}) },
		"UpdateNode":        func() error { return c.UpdateNode(ctx, "a", slurm.NodeUpdate{State: "DRAIN"}) },
		"DeleteNode":        func() error { return c.DeleteNode(ctx, "a") },
		"Reconfigure":       func() error { return c.Reconfigure(ctx) },
		"UpdateReservation": func() error { return c.UpdateReservation(ctx, "a", slurm.ReservationRequest{}) },
		"DeleteReservation": func() error { return c.DeleteReservation(ctx, "a") },
		"CreateAccount":     func() error { return c.CreateAccount(ctx, slurm.AccountCreate{Account: slurm.Account{Name: "a"}}) },
		"UpdateAccount":     func() error { return c.UpdateAccount(ctx, slurm.Account{Name: "a"}) },
		"DeleteAccount":     func() error { return c.DeleteAccount(ctx, "a") },
		"CreateUser":        func() error { return c.CreateUser(ctx, slurm.UserCreate{Name: "a", Accounts: []string{"a"}}) },
		"UpdateUser":        func() error { return c.UpdateUser(ctx, slurm.User{Name: "a"}) },
		"DeleteUser":        func() error { return c.DeleteUser(ctx, "a") },
		"DeleteAssociation": func() error { return c.DeleteAssociation(ctx, slurm.AssociationKey{Cluster: "a", Account: "a"}) },
		"PutQOS":            func() error { return c.PutQOS(ctx, slurm.QOS{Name: "a"}) },
		"DeleteQOS":         func() error { return c.DeleteQOS(ctx, "a") },
		"PutAssociation": func() error {
			return c.PutAssociation(ctx, slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "a", Account: "a"}})
		},
	} {
		writes.Store(0)
		if err := call(); !errors.Is(err, slurm.ErrUnavailable) || writes.Load() != 1 {
			t.Errorf("%s: %v after %d writes, want ErrUnavailable after 1", name, err, writes.Load())
		}
	}
}

func TestOwnDeadline(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, func(c *Config) {
		c.Version, c.Timeout, c.ListTimeout = "v0.0.45", 50*time.Millisecond, 50*time.Millisecond
	})
	start := time.Now()
	if _, err := c.JobStates(t.Context()); !errors.Is(err, slurm.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging server: %v, want ErrUnavailable by deadline", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.CancelJobs(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	var now, most atomic.Int32
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		arrived <- struct{}{}
		<-release
		answerJSON(w, 200, noStates)
	}, func(c *Config) { c.Version, c.Concurrency = "v0.0.45", 2 })
	errs := make(chan error)
	for range 6 {
		go func() { _, err := c.JobStates(context.Background()); errs <- err }()
	}
	<-arrived
	<-arrived
	close(release)
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d calls at once, want 2", most.Load())
	}
}

func TestUnreadableAnswers(t *testing.T) {
	cases := map[string]string{
		"cut off":         `{"jobs":[{"job_id":"1","state":["RUN`,
		"not JSON":        `<html>`,
		"a list":          `[]`,
		"no list":         `{"errors":[]}`,
		"null list":       `{"jobs":null,"errors":[]}`,
		"wrong list":      `{"jobs":{"a":1}}`,
		"wrong id":        `{"jobs":[{"job_id":"x","state":[]}]}`,
		"wrong elements":  `{"jobs":[1,2]}`,
		"longer than max": `{"jobs":[],"meta":"` + strings.Repeat("x", 5000) + `"}`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) { answerJSON(w, 200, body) },
				func(c *Config) { c.Version, c.MaxBody, c.Retries = "v0.0.45", 4096, -1 })
			got, err := c.JobStates(t.Context())
			if !errors.Is(err, slurm.ErrUnavailable) || got != nil {
				t.Errorf("%v, %v, want ErrUnavailable", got, err)
			}
		})
	}
}

func TestTolerantReading(t *testing.T) {
	body := `{"jobs":[{"job_id":7,"job_state":"NEW_STATE","time_limit":5,"priority":"17","cpus":{"set":true,"infinite":false,"number":0},
		"node_count":{"set":false,"infinite":true,"number":0},"tasks":4294967294,"submit_time":null,"end_time":{"set":true,"number":4294967294},
		"nodes":null,"flags":["A"],"unheard_of":{"x":[1]}}],"errors":[]}`
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) { answerJSON(w, 200, body) }, func(c *Config) { c.Version = "v0.0.45" })
	got, err := c.Job(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	want := slurm.Job{ID: 7, States: slurm.States{"NEW_STATE"}, TimeLimit: slurm.NumberOf(5), Priority: slurm.NumberOf(17),
		CPUs: slurm.NumberOf(0), NodeCount: slurm.Infinite(), Flags: []string{"A"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.States.JobEnded() {
		t.Error("an unknown state counts as ended")
	}
}

// TestRequests holds what is sent: method, path, headers and body.
func TestRequests(t *testing.T) {
	var got string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
		if r.Header.Get("X-SLURM-USER-TOKEN") != "t" || r.Header.Get("X-SLURM-USER-NAME") != "alice" {
			t.Errorf("headers %v", r.Header)
		}
		answerJSON(w, 200, `{"job_id":1,"errors":[]}`)
	}, func(c *Config) { c.Version, c.User = "v0.0.45", "alice" })
	ctx, empty := t.Context(), ""
	request := slurm.JobRequest{Name: "n", External: true, MinimumNodes: 2, MemoryPerNode: slurm.NumberOf(0), TimeLimit: slurm.Infinite(),
		Exclusive: true, RequiredNodes: []string{"a", "b"}}
	cases := map[string]func() error{
		`POST /slurm/v0.0.45/job/submit {"job":{"flags":["EXTERNAL_JOB"],"memory_per_node":{"set":true,"infinite":false,"number":0},"minimum_nodes":2,` +
			`"name":"n","required_nodes":["a","b"],"shared":["none"],"time_limit":{"set":true,"infinite":true,"number":0}}}`: func() error {
			_, err := c.Submit(ctx, request)
			return err
		},
		`POST /slurm/v0.0.45/job/allocate {"job":{"flags":["EXTERNAL_JOB"],"immediate":true,"name":"b"}}`: func() error {
			_, err := c.AllocateNow(ctx, external)
			return err
		},
		`DELETE /slurm/v0.0.45/jobs/ {"jobs":["1","2"]}`: func() error { return c.CancelJobs(ctx, 1, 2) },
		`POST /slurm/v0.0.45/job/3 {"comment":"c"}`:      func() error { return c.UpdateJob(ctx, 3, slurm.JobRequest{Comment: "c", External: true}) },
		`POST /slurm/v0.0.45/node/x1 {"extra":"","features":["f"],"features_act":["f"],"reason":"why","state":["DRAIN"]}`: func() error {
			return c.UpdateNode(ctx, "x1", slurm.NodeUpdate{State: "DRAIN", Reason: "why", Features: []string{"f"}, Extra: &empty})
		},
		`DELETE /slurm/v0.0.45/node/x1`:   func() error { return c.DeleteNode(ctx, "x1") },
		`GET /slurm/v0.0.45/reconfigure/`: func() error { return c.Reconfigure(ctx) },
		`POST /slurm/v0.0.45/new/node/ {"node_conf":"NodeName=\"x1\" NodeAddr=\"::1\" Feature=\"a,b\" GresConf=\"count=1,name=gpu\" State=\"EXTERNAL\""}`: func() error {
			return c.CreateNode(ctx, slurm.NodeCreate{Name: "x1", Address: "::1", External: true, Features: []string{"a", "b"}, GRESConf: "count=1,name=gpu"})
		},
	}
	for want, call := range cases {
		if err := call(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRefusedBeforeSending(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }, func(c *Config) { c.Version = "v0.0.45" })
	ctx := t.Context()
	node := func(change func(*slurm.NodeCreate)) func() error {
		n := slurm.NodeCreate{Name: "x1", Address: "10.0.0.1", External: true}
		change(&n)
		return func() error { return c.CreateNode(ctx, n) }
	}
	cases := map[string]func() error{
		"many nodes":           func() error { return c.DeleteNode(ctx, "n[1-100]") },
		"all nodes":            func() error { return c.DeleteNode(ctx, "all") },
		"another URL":          func() error { return c.DeleteNode(ctx, "../job/1") },
		"no name":              func() error { return c.UpdateNode(ctx, "", slurm.NodeUpdate{}) },
		"name address":         node(func(n *slurm.NodeCreate) { n.Address = "x1.example" }),
		"no address":           node(func(n *slurm.NodeCreate) { n.Address = "" }),
		"quotes":               node(func(n *slurm.NodeCreate) { n.GRES = `gpu:1" State="CLOUD` }),
		"line break":           node(func(n *slurm.NodeCreate) { n.Topology = "a\nPartitionName=p" }),
		"feature with a comma": node(func(n *slurm.NodeCreate) { n.Features = []string{"a,b"} }),
		"not external":         func() error { _, err := c.AllocateNow(ctx, slurm.JobRequest{}); return err },
		"another's allocation": func() error {
			_, err := c.AllocateNow(ctx, slurm.JobRequest{External: true, UserID: "alice"})
			return err
		},
		"allocation of scripts": func() error { _, err := c.AllocateNow(ctx, slurm.JobRequest{External: true, Script: "#!"}); return err },
	}
	for name, call := range cases {
		if err := call(); !errors.Is(err, slurm.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := c.CancelJobs(ctx); err != nil {
		t.Errorf("cancelling no job: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, noStates) }))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	c, err := New(Config{URL: "unix://" + path, Tokens: StaticToken("t"), Version: "v0.0.45"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.JobStates(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBadConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no tokens": {URL: "http://a"}, "no host": {URL: "http://", Tokens: StaticToken("t")}, "scheme": {URL: "ftp://a", Tokens: StaticToken("t")},
		"password": {URL: "http://a:b@c", Tokens: StaticToken("t")}, "version": {URL: "http://a", Tokens: StaticToken("t"), Version: "v0.0.1"},
		"CA": {URL: "https://a", Tokens: StaticToken("t"), CAFile: "/nonexistent"}, "certificate": {URL: "https://a", Tokens: StaticToken("t"), CertFile: "/nonexistent"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzJobs(f *testing.F) {
	f.Add([]byte(noStates))
	f.Add([]byte(`{"jobs":[{"job_id":7,"job_state":["RUNNING"],"time_limit":{"set":true,"infinite":false,"number":5}}]}`))
	d, err := dialectOf("v0.0.45")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text := string(body)
		d.Read.JobStates(strings.NewReader(text))
		d.Read.Nodes(strings.NewReader(text))
		d.Read.Resources(strings.NewReader(text))
		d.Read.Partitions(strings.NewReader(text))
		_, _, err := d.Read.Jobs(strings.NewReader(text))
		// What follows the closing brace isn't read; all before it must be JSON.
		var v map[string]any
		if wrong := json.NewDecoder(strings.NewReader(text)).Decode(&v); wrong != nil && err == nil {
			t.Errorf("read jobs from what is no JSON: %v", wrong)
		}
	})
}
