package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// seen is that a job runs or ended, and when a subscriber was told.
type seen struct {
	id    uint32
	ended bool
	at    time.Time
}

func wait(b *testing.B, events <-chan seen, id uint32, ended bool) time.Time {
	b.Helper()
	for timeout := time.After(time.Minute); ; {
		select {
		case s := <-events:
			if s.id == id && s.ended == ended {
				return s.at
			}
		case <-timeout:
			b.Fatalf("no event of job %d within a minute", id)
		}
	}
}

// BenchmarkChangeSeen is the time from a change of a job in a real Slurm to the
// event of a subscriber, while something is awaited and a thousand other jobs are
// there. In turn, a job is started and cancelled. The change happens while the
// call for it is under way: p50-ms and p99-ms count from the beginning of the
// call, after-call-p99-ms from its end.
func BenchmarkChangeSeen(b *testing.B) {
	cluster := slurmtest.Start(b, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	client := cluster.Client(b, "root")
	ctx, cancel := context.WithCancel(b.Context())
	held := request(1)
	held.Priority = slurm.NumberOf(0)
	for range 1000 {
		if _, err := client.Submit(ctx, held); err != nil {
			b.Fatal(err)
		}
	}
	events := make(chan seen, 10_000)
	c := cache.New(client, cache.Options{OnError: func(err error) { b.Log(err) }})
	stop := c.Subscribe(func(e cache.Event) {
		if e.Job != nil && e.Job.New != nil && !e.Job.New.States.Has(slurm.JobPending) {
			events <- seen{e.Job.New.ID, e.Job.New.States.JobEnded(), time.Now()}
		}
	})
	release := c.Await()
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	b.Cleanup(func() { stop(); release(); cancel(); running.Wait() })
	for deadline := time.Now().Add(time.Minute); !c.Synced(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("not synced within a minute")
		}
	}
	var took, after []time.Duration
	note := func(start, end, at time.Time) {
		took, after = append(took, at.Sub(start)), append(after, max(0, at.Sub(end)))
	}
	for b.Loop() {
		start := time.Now()
		id, err := client.AllocateNow(ctx, request(1))
		if err != nil {
			b.Fatal(err)
		}
		end := time.Now()
		note(start, end, wait(b, events, id, false))
		start = time.Now()
		if err := client.CancelJobs(ctx, id); err != nil {
			b.Fatal(err)
		}
		end = time.Now()
		note(start, end, wait(b, events, id, true))
	}
	b.ReportMetric(share(took, 0.5), "p50-ms")
	b.ReportMetric(share(took, 0.99), "p99-ms")
	b.ReportMetric(share(after, 0.99), "after-call-p99-ms")
}

// share returns what a share of the durations doesn't exceed, in milliseconds.
func share(of []time.Duration, share float64) float64 {
	slices.Sort(of)
	return float64(of[min(int(share*float64(len(of))), len(of)-1)].Microseconds()) / 1000
}
