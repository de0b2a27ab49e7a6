package box

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

const (
	slurmNamespace  = "slurm"
	slinkyNamespace = "slinky"
	// slurmHome is the folder that all pods of the box's Slurm cluster share.
	slurmHome = "/home/shared"
)

// slurmCommand is kubectl's arguments that run a command beside slurmctld, in
// the folder that the workers share.
func slurmCommand(interactive bool, args ...string) []string {
	call := []string{"--namespace", slurmNamespace, "exec", "--quiet"}
	if interactive {
		call = append(call, "--stdin")
	}
	call = append(call, "slurm-controller-0", "--container", "slurmctld", "--", "env", "--chdir", slurmHome, "HOME="+slurmHome)
	return append(call, args...)
}

// RunSlurm runs a Slurm command joined to this process's streams.
func (b *Box) RunSlurm(ctx context.Context, streams Streams, args ...string) error {
	return b.RunKubectl(ctx, streams, slurmCommand(true, args...)...)
}

// slurm runs a Slurm command to its end and returns its output.
func (b *Box) slurm(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return b.kubectl(ctx, stdin, slurmCommand(stdin != nil, args...)...)
}

// jobState is Slurm's word for the state of a job that it still remembers.
func (b *Box) jobState(ctx context.Context, id string) (string, error) {
	text, err := b.slurm(ctx, nil, "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return "", err
	}
	for field := range strings.FieldsSeq(text) {
		if state, ok := strings.CutPrefix(field, "JobState="); ok {
			return state, nil
		}
	}
	return "", fmt.Errorf("Slurm gives no state for job %s: %s", id, strings.TrimSpace(text))
}

// indented is text with a margin, for showing a command's output.
func indented(text string) string {
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		out.WriteString("    " + line)
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}
