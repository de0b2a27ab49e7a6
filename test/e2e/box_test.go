package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const variable = "SLINKY_TEST_BOX"

// box is the running box, seen through the same command that its users have.
type box struct {
	t      *testing.T
	name   string
	slinky string
	// namespace is the test's own; it is removed when the test ends.
	namespace string
	// patience is how long the story waits for one thing to come true.
	patience time.Duration
}

// patience is that of most stories.
const patience = 3 * time.Minute

// open finds the box and gives the test a namespace of its own in it.
func open(t *testing.T, namespace string) *box {
	t.Helper()
	return openBy(t, variable, namespace, patience)
}

// openBy is open for a story with a variable and a patience of its own.
func openBy(t *testing.T, variable, namespace string, patience time.Duration) *box {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		t.Skipf("needs a box: set %s to the name of one that is up", variable)
	}
	slinky, err := filepath.Abs("../../bin/slinky")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(slinky); err != nil {
		t.Fatalf("%s is set, but slinky is not built: run go build -o bin/slinky ./cmd/slinky", variable)
	}
	b := &box{t: t, name: name, slinky: slinky, namespace: namespace, patience: patience}
	b.kubectl("create", "namespace", namespace)
	t.Cleanup(b.close)
	return b
}

// in is the box as a part of the story has it, which fails by itself.
func (b *box) in(t *testing.T) *box {
	part := *b
	part.t = t
	return &part
}

// close shows what there was if the test failed, and removes the namespace.
func (b *box) close() {
	ctx, cancel := context.WithTimeout(context.Background(), b.patience)
	defer cancel()
	if b.t.Failed() {
		b.dump(ctx)
	}
	if out, err := b.run(ctx, "", "kubectl", "delete", "namespace", b.namespace, "--wait"); err != nil {
		b.t.Errorf("remove namespace %s: %v\n%s", b.namespace, err, out)
	}
}

// eventColumns has the time of day of events, which logs have too.
const eventColumns = "BEGAN:.metadata.creationTimestamp,LAST:.lastTimestamp,REASON:.reason,KIND:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message"

func (b *box) dump(ctx context.Context) {
	for _, args := range [][]string{
		{"kubectl", "get", "pods", "--all-namespaces", "-o", "wide"},
		{"kubectl", "get", "events", "-n", b.namespace, "--sort-by=.lastTimestamp", "-o", "custom-columns=" + eventColumns},
		{"kubectl", "describe", "pods", "-n", b.namespace},
		{"kubectl", "logs", "-n", b.namespace, "--all-containers", "--prefix", "--tail=400", "-l", "!of-no-pod"},
		{"kubectl", "exec", "-n", b.namespace, "slurm-controller-0", "-c", "slurmctld", "--", "sh", "-c", "for what in nodes partitions jobs; do scontrol show --oneliner $what; done"},
		{"kubectl", "logs", "-n", "slinky", "--all-containers", "--prefix", "--tail=60", "-l", "app.kubernetes.io/name"},
		{"slurm", "sinfo", "-N", "-l"},
		{"slurm", "squeue", "-l"},
	} {
		out, err := b.run(ctx, "", args...)
		b.t.Logf("$ slinky %s\n%s%s", strings.Join(args, " "), out, errorLine(err))
	}
}

func errorLine(err error) string {
	if err == nil {
		return ""
	}
	return err.Error() + "\n"
}

// run runs slinky with its flag for the box's name after the subcommand.
func (b *box) run(ctx context.Context, stdin string, args ...string) (string, error) {
	args = append([]string{args[0], "--name", b.name}, args[1:]...)
	cmd := exec.CommandContext(ctx, b.slinky, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("slinky %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// must runs slinky, ends the test if that fails, and returns what it printed.
func (b *box) must(stdin string, args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), b.patience+time.Minute)
	defer cancel()
	out, err := b.run(ctx, stdin, args...)
	if err != nil {
		b.t.Fatalf("%v%s", err, out)
	}
	return out
}

func (b *box) kubectl(args ...string) string {
	b.t.Helper()
	return b.must("", append([]string{"kubectl"}, args...)...)
}

// apply applies a manifest in the test's namespace.
func (b *box) apply(manifest string) {
	b.t.Helper()
	b.must(manifest, "kubectl", "apply", "-n", b.namespace, "-f", "-")
}

// wait waits with kubectl, as in wait("pod/x", "condition=Ready").
func (b *box) wait(what, forWhat string) {
	b.t.Helper()
	b.kubectl("wait", "-n", b.namespace, what, "--for="+forWhat, "--timeout="+b.patience.String())
}

// get reads one object, or a list, of the test's namespace into v.
func (b *box) get(v any, args ...string) {
	b.t.Helper()
	out := b.kubectl(append([]string{"get", "-n", b.namespace, "-o", "json"}, args...)...)
	if err := decode(out, v); err != nil {
		b.t.Fatalf("read kubectl get %s: %v", strings.Join(args, " "), err)
	}
}

func decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }

// drop deletes an object without a namespace, at the end of a test.
func (b *box) drop(kind, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := b.run(ctx, "", "kubectl", "delete", "--ignore-not-found", "--wait=false", kind, name); err != nil {
		b.t.Errorf("remove %s %s: %v", kind, name, err)
	}
}

// slurm runs a Slurm command, or any other, beside the box's slurmctld.
func (b *box) slurm(stdin string, args ...string) string {
	b.t.Helper()
	return b.must(stdin, append([]string{"slurm"}, args...)...)
}

// until asks again and again until f is content: for what Slurm has no way to wait for.
func (b *box) until(what string, f func(ctx context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), b.patience)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	var last error // what was wrong, rather than that the time is over
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s: not after %s: %v", what, b.patience, last)
		case <-again.C:
		}
	}
}

// jobState waits until a job is in the state.
func (b *box) jobState(job, want string) {
	b.t.Helper()
	b.until("job "+job+" is "+want, func(ctx context.Context) error {
		out, err := b.run(ctx, "", "slurm", "scontrol", "show", "job", job, "--oneliner")
		if err != nil {
			return err
		}
		if got := field(out, "JobState"); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// field finds key=value in what scontrol prints.
func field(text, key string) string {
	for f := range strings.FieldsSeq(text) {
		if value, ok := strings.CutPrefix(f, key+"="); ok {
			return value
		}
	}
	return ""
}

func example(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
