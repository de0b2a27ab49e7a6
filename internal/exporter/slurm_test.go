package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// differs is why a value of slurmctld's own is not ours, "" where it should be.
func differs(name string) string {
	for part, why := range map[string]string{
		"mem": "MiB under a name of bytes", "gpus": "0 unless AccountingStorageTRES lists gres/gpu",
		"wait_part_node_limit": "a reason's number is tested as a bit", "jobs_failed": "counts other ends, too",
		"jobs_started": "counts jobs that were cancelled before they started", "min_job_nodes": "leaves held jobs out",
		"slurm_partition_jobs{": "leaves out jobs that have ended",
		"slurm_sched":           "of another moment", "slurm_bf": "of another moment", "slurm_sdiag": "of another moment", "slurm_last": "of another moment", "_cnt": "of another moment",
	} {
		if strings.Contains(name, part) {
			return why
		}
	}
	return ""
}

// The exporter has every metric of slurmctld's own endpoint under its name and with its value, and the numbers
// that squeue and sinfo print.
func TestSlurm(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{
		ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1"), slurmtest.ExternalNode("x2"), slurmtest.ExternalNode("x3")},
		Config:        []string{"Licenses=matlab:4"},
	})
	client := cluster.Client(t, "root")
	ctx := t.Context()
	job := func(name string, change ...func(*slurm.JobRequest)) slurm.JobRequest {
		r := slurm.JobRequest{Name: name, Partition: "ext", External: true, MinimumNodes: 1, MaximumNodes: 1, TasksPerNode: 1, CPUsPerTask: 2,
			MemoryPerNode: slurm.NumberOf(1000), TimeLimit: slurm.NumberOf(10), WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin"}}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	cluster.Run(t, "scontrol", "update", "nodename=x3", "state=drain", "reason=bad disk")
	for _, r := range []slurm.JobRequest{
		job("runs", func(r *slurm.JobRequest) { r.TRESPerNode = "gres/gpu:2" }), job("runs", func(r *slurm.JobRequest) { r.Licenses = "matlab:1" }),
		job("wide", func(r *slurm.JobRequest) { r.MinimumNodes, r.MaximumNodes = 3, 3 }),
		job("held", func(r *slurm.JobRequest) { r.Priority = slurm.NumberOf(0) }),
	} {
		if _, err := client.Submit(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	ended, err := client.Submit(ctx, job("ended"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CancelJobs(ctx, ended); err != nil {
		t.Fatal(err)
	}

	c := cache.New(client, cache.Options{Nodes: 200 * time.Millisecond, OnError: func(err error) { t.Log(err) }})
	e := New(Config{View: c, Slurm: client, Every: 100 * time.Millisecond, Slow: 200 * time.Millisecond, Now: time.Now, Log: logr.Discard()})
	go c.Run(ctx)
	go e.Run(ctx)

	native := func() map[string]float64 {
		out := map[string]float64{}
		for _, path := range []string{"jobs", "nodes", "partitions", "scheduler", "jobs-users-accts"} {
			maps.Copy(out, parse(t, get(t, fmt.Sprintf("http://127.0.0.1:%d/metrics/%s", cluster.ControllerPort, path))))
		}
		return out
	}
	// Both are of one moment once nothing changes any more: the names all, the values of jobs and nodes.
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		ours, theirs := scrape(t, e), native()
		wrong := compare(ours, theirs)
		if len(wrong) == 0 && ours["slurm_jobs_running"] == 2 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("ours and slurmctld's own differ:\n%s", strings.Join(wrong, "\n"))
		case <-again.C:
		}
	}

	got := scrape(t, e)
	lines := func(argv ...string) float64 {
		return float64(len(strings.Fields(cluster.Run(t, argv...))))
	}
	want(t, got, map[string]float64{
		"slurm_jobs_pending":  lines("squeue", "--noheader", "--states=PENDING", "--format=%i"),
		"slurm_jobs_running":  lines("squeue", "--noheader", "--states=RUNNING", "--format=%i"),
		"slurm_nodes":         lines("sinfo", "--noheader", "--Node", "--partition=ext", "--format=%N"),
		"slurm_nodes_drained": lines("sinfo", "--noheader", "--Node", "--partition=ext", "--states=DRAINED", "--format=%N"),
		"slurm_jobs_hold":     1, "slurm_gres{name=gpu,type=h200}": 12, "slurm_gres_alloc{name=gpu,type=h200}": 2, "slurm_cluster_gpus_alloc": 2,
		"slurm_license_used{license=matlab}": 1, "slurm_partition_wanted_nodes{partition=ext,class=held}": 1,
		"slurm_node_memory_bytes{node=x1}": 64000 << 20, "slurm_jobs_memory_alloc": 2000 << 20,
		"slurm_node_info{node=x3,state=idle,flags=drain,dynamic_norm,external,partitions=ext,reason=bad disk}": 1,
	})
	if submitted := strings.Fields(after(cluster.Run(t, "sdiag"), "Jobs submitted:"))[0]; strconv.FormatFloat(got["slurm_scheduler_jobs_submitted_total"], 'f', -1, 64) != submitted {
		t.Errorf("slurm_scheduler_jobs_submitted_total is %v, sdiag says %s", got["slurm_scheduler_jobs_submitted_total"], submitted)
	}
}

// Shares, limits and use are those that sshare and sacctmgr tell of, and of a job that runs; its times are those of sacct.
func TestSlurmAccounting(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true, ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	client := cluster.Client(t, "root")
	ctx := t.Context()
	for _, err := range []error{
		client.CreateAccount(ctx, slurm.AccountCreate{Account: slurm.Account{Name: "phys"}, Shares: 7}),
		client.CreateUser(ctx, slurm.UserCreate{Name: "alice", Accounts: []string{"phys"}, Shares: 3}),
		client.PutAssociation(ctx, slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "phys"}, GrpTRES: "cpu=8,gres/gpu=3"}),
		client.PutAssociation(ctx, slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "phys", User: "alice"}, MaxJobs: slurm.NumberOf(1)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	request := slurm.JobRequest{Name: "runs", Account: "phys", Partition: "ext", External: true, MinimumNodes: 1, MaximumNodes: 1, TasksPerNode: 1, CPUsPerTask: 2,
		TRESPerNode: "gres/gpu:1", TimeLimit: slurm.NumberOf(10), WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin"}}
	alice := cluster.Client(t, "alice")
	submitted := func() error { _, err := alice.Submit(ctx, request); return err }
	c := cache.New(client, cache.Options{Nodes: 200 * time.Millisecond, OnError: func(err error) { t.Log(err) }})
	e := New(Config{View: c, Slurm: client, Every: 100 * time.Millisecond, Slow: 200 * time.Millisecond, Accounting: 200 * time.Millisecond, Now: time.Now, Log: logr.Discard()})
	go c.Run(ctx)
	go e.Run(ctx)
	expected := map[string]float64{
		"slurm_account_shares{account=phys}": 7, "slurm_user_shares{account=phys,username=alice}": 3,
		"slurm_account_limit{account=phys,resource=cpu}": 8, "slurm_account_limit_used{account=phys,resource=cpu}": 2,
		"slurm_account_limit{account=phys,resource=gres/gpu}": 3, "slurm_account_limit_used{account=phys,resource=gres/gpu}": 1,
		"slurm_user_limit{account=phys,username=alice,resource=jobs}": 1, "slurm_user_limit_used{account=phys,username=alice,resource=jobs}": 1,
		"slurm_controller_responding{controller=slurmctl,mode=primary}": 1,
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	err := errors.New("no job yet")
	for {
		// slurmdbd tells slurmctld of a new user by and by.
		if err != nil {
			err = submitted()
		}
		got := scrape(t, e)
		missing := map[string]float64{}
		for name, value := range expected {
			if have, ok := got[name]; !ok || have != value {
				missing[name] = have
			}
		}
		if len(missing) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("submit: %v; these are otherwise: %v, of\n%v", err, missing, slices.Sorted(maps.Keys(got)))
		case <-again.C:
		}
	}
	asSshare(t, cluster, scrape(t, e))
	asSacct(t, cluster, client, e)
}

// asSshare compares a user's shares with sshare.
func asSshare(t *testing.T, cluster *slurmtest.Cluster, got map[string]float64) {
	t.Helper()
	fields := strings.Split(strings.TrimSpace(cluster.Run(t, "sshare", "--noheader", "--parsable2", "--accounts=phys", "--users=alice", "--format=User,RawShares,NormShares,FairShare")), "\n")
	for _, line := range fields {
		f := strings.Split(line, "|")
		if strings.TrimSpace(f[0]) != "alice" {
			continue
		}
		norm, normErr := strconv.ParseFloat(f[2], 64)
		fair, fairErr := strconv.ParseFloat(f[3], 64)
		if normErr != nil || fairErr != nil || math.Abs(got["slurm_user_share_ratio{account=phys,username=alice}"]-norm) > 1e-5 ||
			math.Abs(got["slurm_user_fairshare{account=phys,username=alice}"]-fair) > 1e-5 {
			t.Errorf("sshare says %q", line)
		}
		return
	}
	t.Errorf("sshare doesn't know alice: %q", fields)
}

// asSacct ends the job that runs, and compares how long it waited and ran with what Slurm's accounting has.
func asSacct(t *testing.T, cluster *slurmtest.Cluster, client slurm.Client, e *Exporter) {
	t.Helper()
	text := strings.TrimSpace(cluster.Run(t, "squeue", "--noheader", "--states=RUNNING", "--format=%i"))
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("squeue tells of running jobs %q", text)
	}
	if err := client.CancelJobs(t.Context(), uint32(id)); err != nil {
		t.Fatal(err)
	}
	type times struct{ wait, run float64 }
	var ours, theirs times
	apitest.Eventually(t, time.Minute, "the exporter and sacct tell the same of the job", func() error {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		page := w.Body.String()
		ours = times{sampleOf(page, `slurm_job_wait_seconds_sum{partition="ext"}`), sampleOf(page, `slurm_job_run_seconds_sum{partition="ext"}`)}
		row := strings.Split(strings.TrimSpace(cluster.Run(t, "sacct", "--noheader", "--parsable2", "--allusers", "--allocations", "--jobs="+text,
			"--format=State,Eligible,Start,End")), "|")
		if len(row) != 4 || !strings.HasPrefix(row[0], "CANCELLED") {
			return fmt.Errorf("sacct says %q", row)
		}
		var at [3]time.Time
		for i, text := range row[1:] {
			var err error
			if at[i], err = time.Parse("2006-01-02T15:04:05", text); err != nil {
				return err
			}
		}
		theirs = times{at[1].Sub(at[0]).Seconds(), at[2].Sub(at[1]).Seconds()}
		if ours != theirs {
			return fmt.Errorf("the exporter has %+v, sacct %+v", ours, theirs)
		}
		return nil
	})
	if theirs.run < 1 {
		t.Errorf("a job that ran for %v s proves nothing", theirs.run)
	}
}

// sampleOf is one value of a page, -1 where it isn't there.
func sampleOf(page, name string) float64 {
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if x, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return x
			}
		}
	}
	return -1
}

// compare is what slurmctld's endpoint has and the exporter hasn't, or has otherwise.
func compare(ours, theirs map[string]float64) []string {
	var wrong []string
	for name, value := range theirs {
		have, ok := ours[name]
		switch {
		case !ok:
			wrong = append(wrong, name+" is missing")
		case have != value && differs(name) == "":
			wrong = append(wrong, fmt.Sprintf("%s is %v, slurmctld says %v", name, have, value))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req) //nolint:forbidigo // the test has a deadline
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, res.Status, err)
	}
	return string(text)
}
