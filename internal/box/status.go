package box

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Running tells in one line what the box is, and whether it runs. ErrNoBox means that there is none.
func (b *Box) Running(ctx context.Context) (line string, runs bool, err error) {
	state, err := b.load()
	if errors.Is(err, ErrNoBox) {
		return fmt.Sprintf("Box %q: not there. Start it with: %s", b.Name, b.call("up")), false, err
	}
	if err != nil {
		return "", false, err
	}
	running, err := b.countRunning(ctx, state)
	if err != nil {
		return "", false, err
	}
	if running == 0 {
		return fmt.Sprintf("Box %q: stopped, with its data kept. Start it with: %s", b.Name, b.call("up")), false, nil
	}
	return fmt.Sprintf("Box %q: %d of %d containers run, at https://127.0.0.1:%d", b.Name, running, len(state.containers()), state.Port), true, nil
}

// Hints are what to try on a box that is ready.
func (b *Box) Hints(o Options) string {
	lines := [][2]string{
		{b.call("status"), "both worlds at a glance"},
		{b.call("kubectl", "get pods -A -o wide"), "Kubernetes' view"},
		{"export KUBECONFIG=$(" + b.call("kubeconfig") + ")", "for your own kubectl or helm"},
	}
	if !o.Bare {
		lines = append(lines, [][2]string{
			{b.call("slurm", "sinfo"), "Slurm's view"},
			{b.call("slurm", "sbatch < examples/primes/job.sh"), "a Slurm job over two nodes"},
			{b.call("kubectl", "apply -f examples/primes/gang.yaml"), "two pods that Slurm places together"},
		}...)
	}
	lines = append(lines, [2]string{b.call("down"), "remove it all"})
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	var text strings.Builder
	text.WriteString("What to try:\n")
	for _, l := range lines {
		fmt.Fprintf(&text, "  %-*s  # %s\n", width, l[0], l[1])
	}
	return text.String()
}

// call is a command line of slinky for this box, as its user would type it.
func (b *Box) call(subcommand string, rest ...string) string {
	words := []string{b.Command, subcommand}
	if b.Name != DefaultName {
		words = append(words, "--name", b.Name)
	}
	return strings.Join(append(words, rest...), " ")
}
