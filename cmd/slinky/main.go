// Command slinky runs a whole cluster on one machine and is the tool for people
// who work with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slinky-hpc/slinky/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := cli.New(os.Environ()).ExecuteContext(ctx)
	if ended := (cli.Ended{}); errors.As(err, &ended) {
		os.Exit(ended.Code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slinky:", err)
		os.Exit(1)
	}
}
