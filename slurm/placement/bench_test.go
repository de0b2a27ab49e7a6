package placement_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/placement"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// BenchmarkRequestToRunning measures from the request for an external job until the
// caller knows that it runs, and where, on an idle cluster.
func BenchmarkRequestToRunning(b *testing.B) {
	cluster := slurmtest.Start(b, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	c := cluster.Client(b, "root")
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		r := request(fmt.Sprint("w", i), 2)
		r.New = true
		start := time.Now()
		p, err := placement.Place(b.Context(), c, r)
		if err != nil || p.State != placement.Running {
			b.Fatalf("%+v, %v", p, err)
		}
		took = append(took, time.Since(start))
		b.StopTimer()
		if err := placement.Cancel(b.Context(), c, p.Job.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const (
	benchNodes = 1000
	// turnJobs is how many jobs one way makes before it is the other's turn.
	turnJobs = 100
	// fullAfter is how many turns fit on the nodes; then all jobs are cancelled.
	fullAfter = 20
	turns     = 80
	workers   = 8
)

// BenchmarkSustained measures external jobs per second on 1,000 nodes, with the client
// and with a bare HTTP loop that sends the same bodies over kept connections and looks
// at nothing but the status. The two take short turns, so that both see the same
// slurmctld and the same neighbours; the ratio is the median over pairs of turns.
func BenchmarkSustained(b *testing.B) {
	nodes := make([]slurm.NodeCreate, benchNodes)
	for i := range nodes {
		nodes[i] = slurmtest.ExternalNode(fmt.Sprintf("x%d", i))
		nodes[i].GRES, nodes[i].GRESConf = "", ""
	}
	cluster := slurmtest.Start(b, slurmtest.Options{ExternalNodes: nodes})
	c, err := rest.New(rest.Config{URL: cluster.URL, Tokens: cluster.Tokens(b, "root"), Version: "v0.0.45", Concurrency: workers})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	client := func(ctx context.Context, i int) error {
		_, err := c.AllocateNow(ctx, sustained(i))
		return err
	}
	bare := newBare(b, cluster)
	turn(b, client) // the first ones warm both sides up
	turn(b, bare.allocate)
	cancelAll(b, c)
	for b.Loop() {
		var ratios []float64
		var total [2]time.Duration
		for i := range turns / 2 {
			var took [2]time.Duration
			ways := []func(context.Context, int) error{client, bare.allocate}
			for k := range ways {
				k ^= i & 1 // who goes first changes
				took[k] = turn(b, ways[k])
				total[k] += took[k]
			}
			ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
			if (i+1)%(fullAfter/2) == 0 {
				cancelAll(b, c)
			}
		}
		slices.Sort(ratios)
		b.ReportMetric(turns/2*turnJobs/total[0].Seconds(), "client-jobs/s")
		b.ReportMetric(turns/2*turnJobs/total[1].Seconds(), "bare-jobs/s")
		b.ReportMetric(ratios[len(ratios)/2], "client/bare")
	}
}

func sustained(i int) slurm.JobRequest {
	return slurm.JobRequest{Name: fmt.Sprint("s", i), Partition: "ext", External: true, CPUsPerTask: 2, MemoryPerNode: slurm.NumberOf(1000),
		TimeLimit: slurm.NumberOf(60), WorkingDirectory: "/tmp", AdminComment: fmt.Sprint("uid-s", i)}
}

// turn makes turnJobs jobs from several goroutines.
func turn(b *testing.B, allocate func(context.Context, int) error) time.Duration {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= turnJobs; i = next.Add(1) {
				if err := allocate(b.Context(), int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return time.Since(start)
}

func cancelAll(b *testing.B, c *rest.Client) {
	b.Helper()
	states, err := c.JobStates(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var ids []uint32
	for _, s := range states {
		if s.States.Has(slurm.JobRunning) {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) < 2*turnJobs {
		b.Fatalf("%d jobs run, want at least %d", len(ids), 2*turnJobs)
	}
	if err := placement.Cancel(b.Context(), c, ids...); err != nil {
		b.Fatal(err)
	}
}

// bare is the least that can be sent.
type bare struct {
	url, token string
	client     *http.Client
}

func newBare(b *testing.B, cluster *slurmtest.Cluster) *bare {
	b.Helper()
	token, err := cluster.Tokens(b, "root").Token(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: time.Minute}
	b.Cleanup(client.CloseIdleConnections)
	return &bare{url: cluster.URL + "/slurm/v0.0.45/job/allocate", token: token, client: client}
}

func (x *bare) allocate(ctx context.Context, i int) error {
	r := sustained(i)
	body, err := json.Marshal(map[string]any{"job": map[string]any{
		"name": r.Name, "partition": r.Partition, "cpus_per_task": r.CPUsPerTask, "flags": []string{"EXTERNAL_JOB"}, "immediate": true,
		"memory_per_node": map[string]any{"set": true, "number": 1000}, "time_limit": map[string]any{"set": true, "number": 60},
		"current_working_directory": "/tmp", "admin_comment": r.AdminComment,
	}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-SLURM-USER-TOKEN", x.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := x.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("allocate: %s, %w\n%s", res.Status, err, answer)
	}
	return nil
}
