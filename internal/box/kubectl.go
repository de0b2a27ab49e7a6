package box

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// Kubectl returns the command that runs kubectl on this box.
func (b *Box) Kubectl(args ...string) ([]string, error) {
	state, err := b.load()
	if err != nil {
		return nil, err
	}
	if state.Parts.Tools.Kube == "" {
		return nil, fmt.Errorf("box %q is not up yet; finish it with: %s", b.Name, b.call("up"))
	}
	return append([]string{state.Parts.Tools.Kube, "kubectl", "--kubeconfig", b.Kubeconfig()}, args...), nil
}

// kubectl runs kubectl to its end and returns its output.
func (b *Box) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	command, err := b.Kubectl(args...)
	if err != nil {
		return "", err
	}
	return hostcmd.Output(ctx, hostcmd.Cmd{Args: command, Stdin: bytes.NewReader(stdin), Env: os.Environ()})
}

// apply makes the objects in text be as they are written there.
func (b *Box) apply(ctx context.Context, text []byte) error {
	_, err := b.kubectl(ctx, text, "apply", "--server-side", "--force-conflicts", "--field-manager", "slinky-box", "-f", "-")
	return err
}

// until runs f until it succeeds or the time is up; the last error says what was missing.
func until(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	var missing error
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		// The try that the end of time cut off only says so.
		if missing == nil || ctx.Err() == nil {
			missing = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", limit, missing)
		case <-poll.C:
		}
	}
}

// Streams are a command's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// run runs a program of the user's joined to the streams, with variables added to the environment.
func (s Streams) run(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	return cmd.Run()
}

// Exec runs a command in a node or the control plane, joined to this process's streams.
func (b *Box) Exec(ctx context.Context, container string, tty bool, streams Streams, args ...string) error {
	status, err := b.status(ctx, container)
	if err != nil {
		return err
	}
	if status != "running" {
		return fmt.Errorf("box %q has no running container %q; see: %s", b.Name, container, b.call("status"))
	}
	call := b.runc("exec")
	if tty {
		call = append(call, "--tty")
	}
	return streams.run(ctx, nil, append(append(call, b.containerID(container)), args...)...)
}

// RunKubectl runs kubectl joined to this process's streams.
func (b *Box) RunKubectl(ctx context.Context, streams Streams, args ...string) error {
	command, err := b.Kubectl(args...)
	if err != nil {
		return err
	}
	return streams.run(ctx, nil, command...)
}

// RunHelm runs helm on this box, joined to this process's streams.
func (b *Box) RunHelm(ctx context.Context, streams Streams, args ...string) error {
	helm, err := b.helm(ctx)
	if err != nil {
		return err
	}
	return streams.run(ctx, []string{"KUBECONFIG=" + b.Kubeconfig()}, append([]string{helm}, args...)...)
}
