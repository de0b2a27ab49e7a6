package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/exporter"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// world is a real Slurm with one of everything, and what there is to scrape of it.
type world struct {
	t       *testing.T
	client  *rest.Client
	targets map[string]string
	work    func() // makes what is measured by events happen once more
}

func start(t *testing.T) *world {
	t.Helper()
	needsSlurm(t)
	cluster := slurmtest.Start(t, slurmtest.Options{
		WithAccounting: true, Config: []string{"Licenses=matlab:4"},
		ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1"), slurmtest.ExternalNode("x2"), slurmtest.ExternalNode("x3")},
	})
	w := &world{t: t, client: cluster.Client(t, "root"), targets: map[string]string{}}
	w.fill()
	c := cache.New(w.client, cache.Options{Nodes: 200 * time.Millisecond, OnError: func(err error) { t.Log(err) }})
	e := exporter.New(exporter.Config{View: c, Slurm: w.client, Token: cluster.Tokens(t, "root").Token, Now: time.Now, Log: logr.Discard(),
		Every: 200 * time.Millisecond, Slow: 500 * time.Millisecond, Accounting: time.Second})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go c.Run(ctx)
	go e.Run(ctx)
	w.serve("exporter", e)
	bridge := w.bridge()
	w.driver()
	w.work = func() {
		bridge()
		w.job()
	}
	return w
}

func (w *world) serve(name string, h http.Handler) {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.targets[name] = s.URL
}

// fill makes what has series of its own.
func (w *world) fill() {
	ctx, day := w.t.Context(), slurm.NumberOf(24*60)
	mark := `{"namespace":"slurm","podName":"slurm-worker-gpu-0","node":"k1","nodeSetName":"slurm-worker-gpu"}`
	for _, err := range []error{
		w.client.CreateAccount(ctx, slurm.AccountCreate{Account: slurm.Account{Name: "phys"}}),
		w.client.CreateUser(ctx, slurm.UserCreate{Name: "alice", Accounts: []string{"phys"}}),
		w.client.PutAssociation(ctx, slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "phys"}, GrpTRES: "cpu=8"}),
		w.client.PutAssociation(ctx, slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "phys", User: "alice"}, MaxJobs: slurm.NumberOf(9)}),
		w.client.UpdateNode(ctx, "x1", slurm.NodeUpdate{Comment: &mark}),
		w.client.UpdateNode(ctx, "x3", slurm.NodeUpdate{State: "DRAIN", Reason: "bad disk"}),
		w.client.CreateReservation(ctx, slurm.ReservationRequest{Name: "r1", Nodes: []string{"x3"}, Users: []string{"root"}, Flags: []string{"IGNORE_JOBS"},
			StartTime: time.Now().Add(time.Hour), Duration: day}),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for _, change := range []func(*slurm.JobRequest){
		func(r *slurm.JobRequest) { r.Licenses = "matlab:1" },
		func(r *slurm.JobRequest) { r.MinimumNodes, r.MaximumNodes = 3, 3 },
	} {
		if _, err := w.client.Submit(ctx, request(change)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func request(change ...func(*slurm.JobRequest)) slurm.JobRequest {
	r := slurm.JobRequest{Name: "j", Partition: "ext", Account: "root", External: true, MinimumNodes: 1, MaximumNodes: 1, TasksPerNode: 1, CPUsPerTask: 2,
		TRESPerNode: "gres/gpu:1", TimeLimit: slurm.NumberOf(10), WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin"}}
	for _, c := range change {
		c(&r)
	}
	return r
}

// job runs one that starts and ends.
func (w *world) job() {
	ctx := w.t.Context()
	// Before the one that waits for three nodes.
	id, err := w.client.Submit(ctx, request(func(r *slurm.JobRequest) { r.Priority = slurm.NumberOf(1e9) }))
	if err != nil {
		w.t.Fatal(err)
	}
	server{t: w.t}.until("the job runs", func(ctx context.Context) error {
		j, err := w.client.Job(ctx, id)
		if err == nil && !j.States.Has(slurm.JobRunning) {
			err = fmt.Errorf("it is %v", j.States)
		}
		return err
	})
	if err := w.client.CancelJobs(ctx, id); err != nil {
		w.t.Fatal(err)
	}
}

// state is the bridge's at a moment.
type state struct{}

func (state) Waiting() map[string]int { return map[string]int{"Resources": 1} }
func (state) Placed() int             { return 1 }
func (state) Age() time.Duration      { return time.Second }

// bridge serves the metrics of the bridge's programs, and returns what counts once more.
func (w *world) bridge() func() {
	r := prometheus.NewRegistry()
	calls, submissions, ends := metrics.NewCalls(), metrics.NewSubmissions(), metrics.NewEnds()
	submissions.SetState(state{})
	r.MustRegister(calls, submissions, ends)
	w.serve("bridge", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return func() {
		calls.Observe(http.MethodGet, time.Millisecond, nil)
		submissions.Asked(nil)
		submissions.Taken(time.Second)
		submissions.Placed(time.Second)
		ends.Pod("JobEnded")
		ends.Job(nil)
	}
}

// driver serves a page as the CPU driver's: it takes a node with a container runtime to have a real one. Its names are
// held against the driver's source.
func (w *world) driver() {
	page, err := os.ReadFile("testdata/dra-cpu.txt")
	if err != nil {
		w.t.Fatal(err)
	}
	source, err := os.ReadFile("../../internal/dracpu/metrics.go")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(string(source), `"`+m[1]+`"`) {
			w.t.Errorf("the CPU driver has no metric %s", m[1])
		}
	}
	w.serve("dra-cpu", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = rw.Write(page)
	}))
}

// metricName finds the metrics of an expression.
var metricName = regexp.MustCompile(`\b(?:slurm|dra_cpu)[:_][a-z0-9_:]+`)

// Each query of each dashboard, of each rule and of the guide gives something, of a real Slurm by a real Prometheus.
func TestQueries(t *testing.T) {
	w := start(t)
	p := startPrometheus(t, w.targets)
	all := queries(t)
	for _, r := range rules(t) {
		if r.Record != "" {
			all["rule "+r.Record] = r.Record
		}
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			all["rule "+r.Record+r.Alert+": "+name] = name
		}
	}
	for name, expr := range guided(t) {
		all[name] = expr
	}
	// What is measured by events, and as a rate, comes by and by.
	p.until("all queries have an answer", func(ctx context.Context) error {
		w.work()
		var silent []string
		for _, where := range slices.Sorted(maps.Keys(all)) {
			got, err := p.query(ctx, all[where])
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if len(got) > 0 {
				delete(all, where)
			} else {
				silent = append(silent, where+": "+all[where])
			}
		}
		if len(silent) > 0 {
			return errors.New(strings.Join(silent, "\n"))
		}
		return nil
	})
	// Nobody is woken by a healthy cluster: of the three nodes all respond.
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := p.get(t.Context(), "/api/v1/alerts", url.Values{}, &data); err != nil {
		t.Fatal(err)
	}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			t.Errorf("of a healthy cluster there is the alert %v", a.Labels)
		}
	}
}

// guided are the queries of the guide to autoscaling: KEDA's, and those of the Prometheus adapter.
func guided(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guides/autoscaling.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i, m := range regexp.MustCompile(`(?m)^\s+query: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		expr := strings.NewReplacer(`"gpu"`, `"ext"`, `partition="slinky"`, `partition="ext"`).Replace(strings.Trim(m[1], "'"))
		out[fmt.Sprintf("guide, query %d", i)] = expr
	}
	if len(out) == 0 {
		t.Error("the guide has no query")
	}
	return out
}
