package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

func TestDescribe(t *testing.T) {
	pending := &slurm.Job{ID: 7, Name: "train", User: "alice", Partition: "gpu", States: slurm.StatesOf("PENDING"), Reason: "Resources",
		StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	running := &slurm.Job{ID: 7, Name: "train", User: "alice", Partition: "gpu", States: slurm.StatesOf("RUNNING"), Nodes: "x[1-2]"}
	longer := *running
	longer.TimeLimit = slurm.NumberOf(5)
	for want, e := range map[string]cache.JobChange{
		`job 7 "train" of alice is pending: Resources, expected to start at 2026-01-02 03:04:05`: {New: pending},
		`job 7 "train" of alice is running on x[1-2]`:                                            {Old: pending, New: running},
		`job 7 "train" of alice is forgotten`:                                                    {Old: running},
		"":                                                                                       {Old: running, New: &longer},
	} {
		if got := describe(e, "gpu"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := describe(e, "other"); got != "" {
			t.Errorf("of another partition: %s", got)
		}
	}
}

func TestWatch(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	client := cluster.Client(t, "root")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close() // which lets a watcher that still writes end
	go func() {
		watch(ctx, client, "ext", w)
		w.Close()
	}()
	id, err := client.AllocateNow(ctx, slurm.JobRequest{Name: "seen", Partition: "ext", External: true, CPUsPerTask: 2, WorkingDirectory: "/tmp"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`"seen" of root is running on x1`, `"seen" of root is cancelled`}
	for s := bufio.NewScanner(r); s.Scan(); {
		if !strings.Contains(s.Text(), want[0]) {
			continue
		}
		if want = want[1:]; len(want) == 0 {
			return
		}
		if err := client.CancelJobs(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("not seen within 30 s: %v", want)
}
