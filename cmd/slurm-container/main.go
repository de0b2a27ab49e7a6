// Command slurm-container prepares and ends the container of a Slurm step. The SPANK plugin of images/slurmd-container runs it as the
// job's user, with a socket as descriptor 3 on which it answers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slinky-hpc/slinky/internal/container"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "slurm-container is run by Slurm: give srun --container-image=PATH")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Args[1] == "snapshot" {
		if err := container.Snapshot(ctx, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(answer(ctx, os.Args[1], os.Args[2:]))
}

// answer runs a command whose result goes to the plugin.
func answer(ctx context.Context, command string, args []string) int {
	c, err := container.OpenChannel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurm-container is run by Slurm, which gives a socket:", err)
		return 2
	}
	err = container.Run(ctx, command, args, c)
	if err == nil {
		return 0
	}
	if !errors.Is(err, container.ErrSaid) {
		c.Fail(err)
	}
	return container.SaidExit
}
