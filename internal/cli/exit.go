package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// Exit codes. docs/cli.md tells users of them.
const (
	// ExitFailed: it didn't work, for a reason that the other codes don't tell.
	ExitFailed = 1
	// ExitUsage: the command line is wrong.
	ExitUsage = 2
	// ExitNotFound: no such pod, job, node or file.
	ExitNotFound = 3
	// ExitPartial: one world couldn't be asked; what is printed is about the other one.
	ExitPartial = 4
	// ExitTrouble: "slinky status --check" has found something wrong.
	ExitTrouble = 5
)

// Ended is the end of another program that a command ran for its user. That
// program has said itself what was wrong.
type Ended struct{ Code int }

func (e Ended) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// ended takes over the exit code of a program that was run for the user.
func ended(err error) error {
	//nolint:errorlint // Only the program itself, not one that failed on the way to it.
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 0 {
		return Ended{Code: exit.ExitCode()}
	}
	return err
}

// coded is an error with an exit code of its own.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

func usage(format string, args ...any) error { return coded{ExitUsage, fmt.Errorf(format, args...)} }

// Code is the exit code that an error stands for.
func Code(err error) int {
	var e Ended
	var c coded
	var n view.NotFoundError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &n):
		return ExitNotFound
	case strings.HasPrefix(err.Error(), "unknown command "), strings.HasPrefix(err.Error(), "required flag(s) "): // cobra has no type for these
		return ExitUsage
	}
	return ExitFailed
}

// Run runs the command line argv, whose first word is the program's name, and returns its exit code.
func Run(ctx context.Context, argv, environ []string, errors io.Writer) int {
	root := New(argv[0], environ)
	root.SetArgs(argv[1:])
	err := root.ExecuteContext(ctx)
	var silent Ended
	if code := Code(err); code == 0 || asEnded(err, &silent) {
		return code
	}
	fmt.Fprintln(errors, "slinky:", err)
	return Code(err)
}

func asEnded(err error, e *Ended) bool { return errors.As(err, e) }
