// Package hostcmd runs programs of the host for the box, so that nothing of them outlives it.
package hostcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// grace is how long a program gets between SIGTERM and SIGKILL when its context ends.
const grace = 5 * time.Second

// keepTail is how much of a program's last output goes into the error when it fails.
const keepTail = 2000

// Cmd is one run of one program.
type Cmd struct {
	Name  string    // in errors; "" means the start of Args
	Args  []string  // program and arguments
	Env   []string  // the whole environment; nil means the caller's
	Dir   string    // working folder; "" means the caller's
	Stdin io.Reader // nil means /dev/null
	Out   io.Writer // gets stdout and stderr as they come; nil drops them
	// Contained runs the program in a PID and a mount namespace of its own: when it ends, is cancelled, or the caller is killed,
	// all its descendants and mounts are gone too. For programs that start many others, such as package managers. Needs root.
	Contained bool
}

// Run runs the command to its end. When ctx ends, the whole process group gets SIGTERM, and SIGKILL a few seconds later.
func Run(ctx context.Context, c Cmd) error {
	_, err := run(ctx, c, false)
	return err
}

// Output is Run and returns what the program wrote to stdout; c.Out gets only its stderr.
func Output(ctx context.Context, c Cmd) (string, error) {
	return run(ctx, c, true)
}

func run(ctx context.Context, c Cmd, capture bool) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", c.name(), context.Cause(ctx))
	}
	args := c.Args
	if c.Contained {
		// unshare kills its child when it dies itself, the child is PID 1 of the namespace, and the kernel kills the rest.
		args = append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--"}, args...)
	}
	last := &tail{limit: keepTail}
	out := io.Writer(last)
	if c.Out != nil {
		out = io.MultiWriter(c.Out, last)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = c.Env, c.Dir, c.Stdin
	cmd.Stdout, cmd.Stderr = out, out
	var stdout bytes.Buffer
	if capture {
		cmd.Stdout = &stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = grace
	err := wait(ctx, cmd, c.Contained)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it ended well, and left a child that still holds its output open
		return stdout.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s was stopped: %w", c.name(), context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed: %w", args[0], err)
	}
	if text := last.String(); text != "" {
		return "", fmt.Errorf("%s: %w; its last output:\n%s", c.name(), err, text)
	}
	return "", fmt.Errorf("%s: %w", c.name(), err)
}

// wait starts the command and waits for it on one thread: the parent-death signal is tied to the thread that forked.
func wait(ctx context.Context, cmd *exec.Cmd, contained bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		first := syscall.SIGTERM
		if contained {
			// unshare itself ignores SIGTERM while its child runs, and what it contains is thrown away as a whole.
			first = syscall.SIGKILL
		}
		_ = syscall.Kill(-cmd.Process.Pid, first)
		select {
		case <-done:
		case <-time.After(grace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	err := cmd.Wait()
	close(done)
	<-stopped
	return err
}

// name is enough of a command to know it again.
func (c Cmd) name() string {
	if c.Name != "" {
		return c.Name
	}
	return strings.Join(c.Args[:min(len(c.Args), 2)], " ")
}

// tail keeps the last bytes that were written to it.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.buf)) }
