package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planned is what a planner says on a file.
type planned struct {
	Planner, About, Unplanned string
	Steps                     []struct {
		Do, Why string
		Pods    []string
	}
}

// planOf takes a snapshot, looks for a secret in it, and runs the planners on it.
func (b *box) planOf(secret string) []planned {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "now.slinky")
	b.must("", "snapshot", path)
	file, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || bytes.Contains(text, []byte(secret)) {
		b.t.Errorf("the secret is in the file (%v)", err)
	}
	var out []planned
	if err := decode(b.must("", "replay", path, "plan", "-o", "json"), &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// A snapshot tells what the bridge does next with a group, before the bridge does it: nothing while a
// member is missing, and nothing more once all have their nodes. No planner lacks a fact.
func TestSnapshotTellsWhatIsNext(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-snapshot")
	const secret = "e2e-hunter2"
	pod := func(name string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: slurm-bridge-scheduler
  schedulingGroup: {podGroupName: pair}
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  containers:
    - {name: main, image: %q, imagePullPolicy: IfNotPresent, command: [sleep, "600"], env: [{name: PASSWORD, value: %s}], resources: {requests: {cpu: 100m}}}
`, name, image, secret)
	}
	b.apply(`apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata:
  name: pair
  annotations: {slurmjob.slinky.slurm.net/timelimit: "5", slurmjob.slinky.slurm.net/exclusive: "false"}
spec: {schedulingPolicy: {gang: {minCount: 2}}}` + pod("pair-0"))
	plan := b.planOf(secret)
	for _, p := range plan {
		if p.Unplanned != "" && !strings.Contains(p.Unplanned, "is that of Controller slurm/slurm, not of") {
			t.Errorf("%s isn't planned: %s", p.About, p.Unplanned)
		}
	}
	about := func(p planned) bool { return p.Planner == "workloads" && p.About == "PodGroup e2e-snapshot/pair" }
	i := slices.IndexFunc(plan, about)
	if i < 0 || len(plan[i].Steps) != 1 || plan[i].Steps[0].Do != "wait" || !slices.Equal(plan[i].Steps[0].Pods, []string{"e2e-snapshot/pair-0"}) ||
		!strings.Contains(plan[i].Steps[0].Why, "has 1 of the 2 pods that must start together") {
		t.Fatalf("of the group without its second pod is planned %+v", plan)
	}
	b.apply(pod("pair-1"))
	b.until("the pods have their nodes", func(ctx context.Context) error {
		out, err := b.run(ctx, "", "kubectl", "wait", "-n", b.namespace, "--for=condition=PodScheduled", "--timeout=10s", "pod/pair-0", "pod/pair-1")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if i := slices.IndexFunc(b.planOf(secret), about); i >= 0 {
		t.Errorf("of a group that runs is planned %+v", plan[i])
	}
}
