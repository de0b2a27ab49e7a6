// Command slinky runs a whole cluster on one machine and is the tool for people
// who work with it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slinky-hpc/slinky/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := cli.New(os.Environ()).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "slinky:", err)
		os.Exit(cli.ExitCode(err))
	}
}
