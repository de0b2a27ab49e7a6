// Watchqueue prints what happens in a Slurm queue, until it is interrupted:
//
//	go run ./examples/watchqueue -url http://slurmrestd:6820 -token /run/slurm/token -partition gpu
//
// It reads Slurm through a cache, as a controller would: one poller, ordered
// events with old and new, and an age that tells when the view is old.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:6820", "slurmrestd: http://host:port, https://host:port or unix:///path")
	token := flag.String("token", "", "file with the token, as scontrol token prints it without \"SLURM_JWT=\"")
	partition := flag.String("partition", "", "only jobs of this partition")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := rest.New(rest.Config{URL: *url, Tokens: rest.TokenFile(*token)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "watchqueue:", err)
		os.Exit(1)
	}
	defer client.Close()
	watch(ctx, client, *partition, os.Stdout)
}

// watch prints a line for each change until ctx ends.
func watch(ctx context.Context, client slurm.Client, partition string, to io.Writer) {
	out := &lines{to: to}
	c := cache.New(client, cache.Options{OnError: func(err error) { out.printf("Slurm can't be asked: %v", err) }})
	stop := c.Subscribe(func(e cache.Event) {
		if e.Job != nil {
			if text := describe(*e.Job, partition); text != "" {
				out.printf("%s", text)
			}
		}
	})
	defer stop()
	c.Run(ctx)
}

// describe says what changed of a job; "" if nothing that a reader of a queue asks for did.
func describe(e cache.JobChange, partition string) string {
	job := e.New
	if job == nil {
		job = e.Old
	}
	if partition != "" && job.Partition != partition {
		return ""
	}
	name := fmt.Sprintf("job %d %q of %s", job.ID, job.Name, job.User)
	switch {
	case e.New == nil:
		return name + " is forgotten"
	case e.Old != nil && e.Old.States.String() == job.States.String() && e.Old.Reason == job.Reason:
		return ""
	}
	text := name + " is " + strings.ToLower(job.States.String())
	switch {
	case job.States.Has(slurm.JobRunning):
		text += " on " + job.Nodes
	case job.Reason != "":
		text += ": " + job.Reason
	}
	if job.States.Has(slurm.JobPending) && !job.StartTime.IsZero() {
		text += ", expected to start at " + job.StartTime.Format(time.DateTime)
	}
	return text
}

// lines keeps lines whole that come from several goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, format+"\n", args...)
}
