package container

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Run carries out one command of the plugin, or of this program's own children.
func Run(ctx context.Context, command string, args []string, c Channel) error {
	unix.Umask(0o022)
	if command == "enter" {
		return Enter(os.Stdin, c)
	}
	dir, err := os.Getwd() // the job's
	if err != nil {
		dir = "/"
	}
	o, err := ParseOptions(args, dir)
	if err != nil {
		return err
	}
	switch command {
	case "prepare":
		return Prepare(ctx, o, dir, os.Getenv, c)
	case "save":
		return Save(ctx, o, c)
	case "finish":
		return Finish(o, c)
	}
	return fmt.Errorf("%q is no command of slurm-container", command)
}
