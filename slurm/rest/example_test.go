package rest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Run an external job: at once if there is room, else in the queue.
func Example() {
	tokens, err := rest.TokensFromKey(rest.KeyConfig{KeyFile: "/run/slurm/jwt_hs256.key", User: "slurm"})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := rest.New(rest.Config{URL: "http://slurmrestd:6820", Tokens: tokens})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	job := slurm.JobRequest{Name: "train", Partition: "ext", CPUsPerTask: 4, MemoryPerNode: slurm.NumberOf(8000), External: true}
	id, err := client.AllocateNow(ctx, job)
	if errors.Is(err, slurm.ErrBusy) {
		id, err = client.Submit(ctx, job)
	}
	fmt.Println(id, err)
}
