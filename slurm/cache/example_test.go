package cache_test

import (
	"context"
	"fmt"

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
