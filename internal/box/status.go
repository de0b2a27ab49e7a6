package box

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Status writes what the box is and what runs in it, in both worlds.
func (b *Box) Status(ctx context.Context, out io.Writer) error {
	state, err := b.load()
	if errors.Is(err, ErrNoBox) {
		fmt.Fprintf(out, "Box %q: not there. Start it with: %s\n", b.Name, b.call("up"))
		return nil
	}
	if err != nil {
		return err
	}
	running, err := b.countRunning(ctx, state)
	if err != nil {
		return err
	}
	if running == 0 {
		fmt.Fprintf(out, "Box %q: stopped, with its data kept. Start it with: %s\n", b.Name, b.call("up"))
		return nil
	}
	fmt.Fprintf(out, "Box %q: %d of %d containers run, Kubernetes %s at https://127.0.0.1:%d\n", b.Name, running, len(state.containers()), Version, state.Port)
	b.section(ctx, out, "Kubernetes nodes", "get", "nodes",
		"-o", "custom-columns=NAME:.metadata.name,READY:.status.conditions[?(@.type=='Ready')].status,CPU:.status.allocatable.cpu,"+
			"MEMORY:.status.allocatable.memory,TAINTS:.spec.taints[*].key")
	b.section(ctx, out, "Pods", "get", "pods", "--all-namespaces",
		"-o", "custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,"+
			"SLURM JOB:.metadata.labels.scheduler\\.slinky\\.slurm\\.net/slurm-jobid")
	if _, err := b.kubectl(ctx, nil, "get", "namespace", slurmNamespace); err != nil {
		return nil // A bare box has no Slurm.
	}
	b.section(ctx, out, "Slurm nodes", slurmCommand(false, "sinfo", "--Node", "--format", "%14N %12P %10T %5c %8m %20E")...)
	b.section(ctx, out, "Slurm queue", slurmCommand(false, "squeue")...)
	return nil
}

// section shows a command's output under a title. A part that doesn't answer must not hide the others.
func (b *Box) section(ctx context.Context, out io.Writer, title string, args ...string) {
	text, err := b.kubectl(ctx, nil, args...)
	if err != nil {
		text = "no answer: " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
	}
	fmt.Fprintf(out, "\n%s\n%s", title, indented(text))
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
