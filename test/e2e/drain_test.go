package e2e

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A node is drained in both worlds with its cause, who waits reads it, and what somebody else
// did stays. Other stories wait meanwhile: the node is theirs, too.
func TestDrainWithCause(t *testing.T) {
	b := open(t, "e2e-drain")
	const node, cause = "node-3", "fan 3 is loud"
	exits := func(want int, says string, args ...string) {
		t.Helper()
		out, err := b.run(t.Context(), "", args...)
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
			out += err.Error()
		}
		if code != want || !strings.Contains(out, says) {
			t.Errorf("slinky %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), code, want, says, out)
		}
	}
	stands := func(when, reason string, cordoned bool) {
		t.Helper()
		line := b.slurm("", "sinfo", "--noheader", "--nodes", node, "--format", "%E")
		var n corev1.Node
		b.get(&n, "node", node)
		if got := strings.TrimSpace(line); got != reason || n.Spec.Unschedulable != cordoned {
			t.Errorf("%s: Slurm's reason is %q, want %q; cordoned %v, want %v", when, got, reason, n.Spec.Unschedulable, cordoned)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.patience)
		defer cancel()
		_, _ = b.run(ctx, "", "undrain", node)
		_, _ = b.run(ctx, "", "kubectl", "uncordon", node)
		_, _ = b.run(ctx, "", "slurm", "scontrol", "update", "nodename="+node, "state=undrain")
	})
	exits(2, "required flag(s) \"reason\"", "drain", node)
	exits(3, "neither Kubernetes nor Slurm has a node", "drain", "node-99", "--reason", cause)
	exits(0, "would be done", "drain", node, "--reason", cause, "--dry-run")
	stands("after a dry run", "none", false)
	exits(0, "done: Slurm node "+node, "drain", node, "--reason", cause)
	who := strings.TrimSpace(b.kubectl("get", "node", node, "-o", `jsonpath={.metadata.annotations.slinky\.slurm\.net/drained-by}`))
	stands("drained", "slinky: "+cause+" ("+who+")", true)
	if who == "" {
		t.Error("nobody is named who drained it")
	}
	exits(0, "There is nothing to do", "drain", node, "--reason", cause)
	exits(0, cause, "why", node)
	exits(5, cause, "status", "--check")
	exits(0, "uncordoned", "undrain", node)
	b.until("the drain is lifted for good", func(ctx context.Context) error {
		out, err := b.run(ctx, "", "slurm", "sinfo", "--noheader", "--nodes", node, "--format", "%E %t")
		if err == nil && strings.TrimSpace(out) != "none idle" {
			err = errors.New(out)
		}
		return err
	})
	stands("lifted", "none", false)

	b.slurm("", "scontrol", "update", "nodename="+node, "state=drain", "reason=mine")
	exits(0, "stays as it is", "drain", node, "--reason", cause)
	stands("drained by two", "mine", true)
	exits(0, "stays as it is, as slinky didn't do it", "undrain", node)
	stands("drained by the other", "mine", false)
}
