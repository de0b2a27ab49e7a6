package exporter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/slinky-hpc/slinky/slurm"
)

// These tests follow defects that users of other exporters have reported. Sxxx are the numbers of the cases.

// series reads the page of some facts, as a map from "name{label=value,...}" to the value.
func series(t testing.TB, f Facts, o Options) map[string]float64 {
	t.Helper()
	page, err := Page(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(page))
}

func parse(t testing.TB, page string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("Prometheus can't read the page: %v", err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetValue() != "" { // to Prometheus the same as no label
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			key := name
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			out[key] = value(m)
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

func want(t *testing.T, got map[string]float64, samples map[string]float64) {
	t.Helper()
	for name, value := range samples {
		if have, ok := got[name]; !ok || have != value {
			t.Errorf("%s is %v (there: %t), want %v", name, have, ok, value)
		}
	}
}

func aNode(name string, states ...string) slurm.Node {
	return slurm.Node{Name: name, States: slurm.StatesOf(states...), CPUs: 16, EffectiveCPUs: 16, RealMemory: 1000, Partitions: []string{"a"}}
}

// S111: each node has one base state, whatever its flags.
func TestS111EveryNodeCountsOnce(t *testing.T) {
	f := Facts{Nodes: []slurm.Node{
		aNode("idle", "IDLE"), aNode("allocated", "ALLOCATED"), aNode("mixed", "MIXED"), aNode("down", "DOWN"), aNode("drained", "IDLE", "DRAIN"),
		aNode("draining", "ALLOCATED", "DRAIN"), aNode("completing", "IDLE", "COMPLETING"), aNode("fail", "IDLE", "FAIL"),
		aNode("maint", "IDLE", "MAINTENANCE", "RESERVED"), aNode("cloud", "IDLE", "CLOUD", "POWERED_DOWN"), aNode("planned", "IDLE", "PLANNED"),
		aNode("future", "FUTURE"), aNode("odd", "SOMETHING_NEW"),
	}}
	got := series(t, f, Options{})
	want(t, got, map[string]float64{
		"slurm_nodes_total": 13, "slurm_nodes": 13, "slurm_nodes_drain_total": 2, "slurm_nodes_drained": 1, "slurm_nodes_draining": 1,
		"slurm_nodes_unknown_total": 1, "slurm_nodes_unknown": 1, "slurm_nodes_maint": 1, "slurm_nodes_powered_down": 1,
	})
	sum := 0.0
	for _, w := range publishedBases {
		sum += got["slurm_nodes_"+w.name+"_total"]
	}
	if sum != 13 {
		t.Errorf("the base states sum up to %v of 13 nodes", sum)
	}
}

// S113: a node in two partitions counts in both, and once in the cluster.
func TestS113TwoPartitions(t *testing.T) {
	n1, n2 := aNode("n1", "MIXED"), aNode("n2", "IDLE")
	n1.Partitions, n1.AllocCPUs, n2.Partitions = []string{"a", "b"}, 8, []string{"b"}
	want(t, series(t, Facts{Nodes: []slurm.Node{n1, n2}}, Options{Vpenso: true}), map[string]float64{
		"slurm_cluster_cpus": 32, "slurm_cluster_cpus_alloc": 8, "slurm_cpus_total": 32, "slurm_cpus_other": 0,
		"slurm_partition_cpus{partition=a}": 16, "slurm_partition_nodes_cpus_alloc{partition=a}": 8,
		"slurm_partition_cpus{partition=b}": 32, "slurm_partition_nodes_cpus_alloc{partition=b}": 8,
	})
}

// S115: what doesn't respond isn't idle and usable.
func TestS115NotResponding(t *testing.T) {
	want(t, series(t, Facts{Nodes: []slurm.Node{aNode("n", "IDLE", "NOT_RESPONDING")}}, Options{}), map[string]float64{
		"slurm_nodes_idle": 1, "slurm_nodes_noresp": 1, "slurm_cluster_cpus_idle": 0,
		"slurm_node_info{node=n,state=idle,flags=not_responding,partitions=a}": 1,
	})
}

// S116: the reason is one label of one series, and can't break the page.
func TestS116Reasons(t *testing.T) {
	n := aNode("n", "IDLE", "DRAIN")
	n.Reason = "bad \"disk\"\nat\t12:00 \xff" + strings.Repeat("é", 4096)
	for name := range series(t, Facts{Nodes: []slurm.Node{n}}, Options{}) {
		if i := strings.Index(name, "reason="); i >= 0 {
			if reason := name[i:]; len(reason) > 150 || !utf8.ValidString(reason) || !strings.HasPrefix(reason, `reason=bad "disk" at 12:00 `) {
				t.Errorf("%d bytes: %q", len(reason), reason)
			}
		}
	}
	want(t, series(t, Facts{Nodes: []slurm.Node{n}}, Options{NoReasons: true}), map[string]float64{
		"slurm_node_info{node=n,state=idle,flags=drain,partitions=a}": 1})
}

// S119: an odd record is shown as far as it can be, and hides no other.
func TestS119OddRecords(t *testing.T) {
	long := aNode(strings.Repeat("n", 300), "IDLE")
	odd := slurm.Node{Name: "odd", CPUs: -1, AllocCPUs: -3, SpecializedMemory: 9, GRES: "gpu:(", GRESUsed: ")"}
	jobs := []slurm.Job{{ID: 1, States: slurm.StatesOf("RUNNING"), TRESAllocated: "cpu==,x"}, {ID: 2, States: slurm.StatesOf("PENDING"), ArrayTasks: "1-"}, {ID: 3}}
	want(t, series(t, Facts{Nodes: []slurm.Node{long, odd}, Jobs: jobs}, Options{}), map[string]float64{
		"slurm_nodes": 2, "slurm_node_cpus{node=odd}": 0, "slurm_node_memory_effective_bytes{node=odd}": 0, "slurm_jobs": 3, "slurm_jobs_pending": 1,
	})
}

// S120: what has a bounded number of series is always there; users come and go with their jobs.
func TestS120EmptyCluster(t *testing.T) {
	empty := Facts{Partitions: []slurm.Partition{{Name: "a"}}}
	before := series(t, empty, Options{})
	want(t, before, map[string]float64{"slurm_jobs_pending": 0, "slurm_partition_jobs_pending{partition=a}": 0, "slurm_partition_wanted_gpus{partition=a,class=resources}": 0, "slurm_nodes_idle": 0})
	full := empty
	full.Jobs = []slurm.Job{{ID: 1, User: "u1", UserID: 1001, Account: "acc", Partition: "a", States: slurm.StatesOf("PENDING")}}
	got := series(t, full, Options{})
	want(t, got, map[string]float64{"slurm_user_jobs_pending{username=u1}": 1, "slurm_user_jobs_pending_total{userid=1001,username=u1}": 1, "slurm_account_jobs_pending{account=acc}": 1})
	for name := range before {
		if _, ok := got[name]; !ok {
			t.Errorf("with a job %s is gone", name)
		}
	}
	for name := range series(t, empty, Options{}) {
		if strings.Contains(name, "slurm_user") {
			t.Errorf("without jobs there is %s", name)
		}
	}
	for name := range series(t, full, Options{NoUsers: true, NoAccounts: true}) {
		if strings.Contains(name, "slurm_user") || strings.Contains(name, "slurm_account") {
			t.Errorf("turned off, there is %s", name)
		}
	}
}

// S123: users are told apart by number; no series is there twice.
func TestS123Users(t *testing.T) {
	job := func(id, uid uint32, name string) slurm.Job {
		return slurm.Job{ID: id, User: name, UserID: uid, States: slurm.StatesOf("RUNNING"), TRESAllocated: "cpu=2,mem=1G,node=1"}
	}
	jobs := []slurm.Job{job(1, 1001, ""), job(2, 1001, "ann"), job(3, 7, "bob"), job(4, 8, "bob"), job(4, 8, "bob")}
	want(t, series(t, Facts{Jobs: jobs}, Options{}), map[string]float64{
		"slurm_jobs_running": 4, "slurm_jobs_cpus_alloc": 8, "slurm_jobs_memory_alloc": 4 << 30,
		"slurm_user_jobs_running_total{userid=1001,username=ann}": 2, "slurm_user_jobs_running_total{userid=7,username=bob}": 1,
		"slurm_user_jobs_running_total{userid=8,username=bob}": 1, "slurm_user_jobs_running{username=bob}": 2, "slurm_user_jobs_cpus_alloc{username=bob}": 4,
	})
}

// What waits is told by reason, and by what would help; arrays count by their tasks.
func TestDemand(t *testing.T) {
	pending := func(id uint32, reason, tres string, change ...func(*slurm.Job)) slurm.Job {
		j := slurm.Job{ID: id, Partition: "a,b", States: slurm.StatesOf("PENDING"), Reason: reason, TRESRequested: tres, Priority: slurm.NumberOf(7)}
		for _, c := range change {
			c(&j)
		}
		return j
	}
	jobs := []slurm.Job{
		pending(1, "Resources", "cpu=8,mem=1G,node=4,gres/gpu=8,gres/gpu:h100=8"),
		pending(2, "Priority", "cpu=1,node=1", func(j *slurm.Job) { j.ArrayTasks = "2-9,12%3" }),
		pending(3, "JobHeldUser", "cpu=64,node=32", func(j *slurm.Job) { j.Priority = slurm.NumberOf(0) }),
		pending(4, "ReqNodeNotAvail, UnavailableNodes:n[1-9]", "cpu=1,node=1"),
		pending(5, "PartitionNodeLimit", "cpu=1,node=9"),
	}
	want(t, series(t, Facts{Jobs: jobs}, Options{}), map[string]float64{
		"slurm_jobs_pending": 13, "slurm_jobs_hold": 1, "slurm_partition_jobs_hold_total{partition=b}": 1,
		"slurm_partition_pending_jobs{partition=a,reason=ReqNodeNotAvail}": 1,
		"slurm_partition_wanted_nodes{partition=a,class=resources}":        5,
		"slurm_partition_wanted_gpus{partition=a,class=resources}":         8,
		"slurm_partition_wanted_cpus{partition=b,class=priority}":          9,
		"slurm_partition_wanted_jobs{partition=a,class=held}":              1,
		"slurm_partition_wanted_jobs{partition=a,class=impossible}":        1,
		"slurm_partition_jobs_max_job_nodes{partition=a}":                  32,
		"slurm_partition_jobs_max_job_nodes_nohold{partition=a}":           9,
		"slurm_partition_jobs_min_job_nodes{partition=a}":                  1,
		"slurm_partition_jobs_pending_maxnodecount_total{partition=a}":     9,
		"slurm_partition_jobs_wait_part_node_limit{partition=a}":           1,
	})
}

func TestTasks(t *testing.T) {
	for expression, want := range map[string]int{"": 1, "7": 1, "2-9,12%3": 9, "0-10:5": 3, "[1-4]": 4, "1-": 1, "a-b": 1, "9-2": 1, "1-3:0": 1} {
		if got := tasks(expression); got != want {
			t.Errorf("tasks(%q) = %d, want %d", expression, got, want)
		}
	}
}

// Same facts, same bytes, in whatever order Slurm gave them.
func TestSameBytes(t *testing.T) {
	f := large(50, 200)
	want, err := Page(f, Options{Vpenso: true})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		random.Shuffle(len(f.Jobs), func(i, j int) { f.Jobs[i], f.Jobs[j] = f.Jobs[j], f.Jobs[i] })
		random.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
		got, err := Page(f, Options{Vpenso: true})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("the page is another one: %v", err)
		}
	}
}

// large is a cluster of many nodes and jobs, 800 users and 10 partitions.
func large(nodes, jobs int) Facts {
	f := Facts{Now: time.Unix(2e9, 0)}
	for i := range 10 {
		f.Partitions = append(f.Partitions, slurm.Partition{Name: fmt.Sprintf("p%d", i)})
	}
	states := [][]string{{"IDLE"}, {"MIXED"}, {"ALLOCATED"}, {"IDLE", "DRAIN"}, {"DOWN", "NOT_RESPONDING"}}
	for i := range nodes {
		n := aNode("node-"+strconv.Itoa(i), states[i%len(states)]...)
		n.Partitions, n.GRES, n.GRESUsed = []string{fmt.Sprintf("p%d", i%10)}, "gpu:h100:8(S:0-1)", "gpu:h100:4(IDX:0-3)"
		f.Nodes = append(f.Nodes, n)
	}
	for i := range jobs {
		j := slurm.Job{ID: uint32(i + 1), User: fmt.Sprintf("u%d", i%800), UserID: uint32(1000 + i%800), Account: fmt.Sprintf("acc%d", i%50),
			Partition: fmt.Sprintf("p%d", i%10), States: slurm.StatesOf("RUNNING"), TRESAllocated: "cpu=64,mem=250G,node=2,billing=64,gres/gpu=8,gres/gpu:h100=8"}
		if i%2 == 0 {
			j.States, j.Reason, j.TRESAllocated, j.TRESRequested = slurm.StatesOf("PENDING"), "Priority", "", "cpu=8,mem=1G,node=1"
		}
		f.Jobs = append(f.Jobs, j)
	}
	return f
}

// BenchmarkPage counts and writes 20,000 nodes and 100,000 jobs, which happens beside the scrapes.
func BenchmarkPage(b *testing.B) {
	f := large(20_000, 100_000)
	for b.Loop() {
		page, err := Page(f, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(page))/(1<<20), "MiB")
	}
}
