package cache_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Watch a queue, at a load on Slurm that doesn't depend on how many watch it.
func Example() {
	client, err := rest.New(rest.Config{URL: "http://slurmrestd:6820", Tokens: rest.TokenFile("/run/slurm/token")})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cache.New(client, cache.Options{OnError: func(err error) { fmt.Println("Slurm:", err) }})
	stop := c.Subscribe(func(e cache.Event) {
		if e.Job != nil && e.Job.New != nil {
			fmt.Println("job", e.Job.New.ID, "is", e.Job.New.States)
		}
	})
	defer stop()
	c.Run(context.Background())
}

// Find the jobs of a workload, whose UID the submitter put into their comments.
func ExampleCache_JobsWithKey() {
	workload := func(j slurm.Job) string {
		var comment struct{ UID string }
		if json.Unmarshal([]byte(j.AdminComment), &comment) != nil {
			return ""
		}
		return comment.UID
	}
	c := cache.New(oneJob{}, cache.Options{Key: workload})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go c.Run(ctx)
	for !c.Synced() {
		time.Sleep(time.Millisecond)
	}
	for _, j := range c.JobsWithKey("5e0f") {
		fmt.Println(j.ID, j.States)
	}
	// Output: 7 RUNNING
}

// Begin with what an earlier process saw, for as long as Slurm is away.
func ExampleCache_Load() {
	const file = "/var/lib/slinky/slurm-view"
	c := cache.New(oneJob{}, cache.Options{})
	if err := c.Load(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Println("begin with nothing:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go c.Run(ctx)
	// Until c.Synced(), what c has is as old as c.Age() says.
	cancel()
	if err := c.Save(file); err != nil {
		fmt.Println(err)
	}
}

// oneJob is a Slurm for the examples.
type oneJob struct{ slurm.Client }

var theJob = slurm.Job{ID: 7, States: slurm.StatesOf(slurm.JobRunning), AdminComment: `{"UID":"5e0f"}`}

func (oneJob) JobStates(context.Context) ([]slurm.JobState, error) {
	return []slurm.JobState{{ID: theJob.ID, States: theJob.Clone().States}}, nil
}
func (oneJob) Job(context.Context, uint32) (slurm.Job, error) { return theJob.Clone(), nil }
func (oneJob) Nodes(context.Context) ([]slurm.Node, error)    { return nil, nil }
