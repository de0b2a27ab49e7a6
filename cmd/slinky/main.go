// Command slinky runs a whole cluster on one machine and is the tool for people
// who work with it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/slinky-hpc/slinky/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := cli.Run(ctx, os.Args, os.Environ(), os.Stderr)
	stop()
	os.Exit(code)
}
