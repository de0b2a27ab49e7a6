package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// identities are all objects with what changes when somebody writes their specification.
// Helm's notes on its own upgrades are left out: it makes one for each, whether or not anything changed.
func (b *box) identities() string {
	b.t.Helper()
	all := b.kubectl("get", "nodes,namespaces,deployments,daemonsets,statefulsets,services,configmaps,secrets,crds,"+
		"controllers.slinky.slurm.net,nodesets.slinky.slurm.net,restapis.slinky.slurm.net", "--all-namespaces", "--no-headers",
		"-o", "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid,GENERATION:.metadata.generation")
	var kept strings.Builder
	for line := range strings.Lines(all) {
		if !strings.Contains(line, " sh.helm.release.v1.") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestUpOnARunningBoxChangesNothing(t *testing.T) {
	b := open(t, "e2e-up-again")
	before := b.identities()
	pods := b.kubectl("get", "pods", "-n", "slurm", "-o", "custom-columns=NAME:.metadata.name,UID:.metadata.uid")
	b.must("", "up")
	if d := cmp.Diff(before, b.identities()); d != "" {
		t.Errorf("objects changed (-before +after):\n%s", d)
	}
	if d := cmp.Diff(pods, b.kubectl("get", "pods", "-n", "slurm", "-o", "custom-columns=NAME:.metadata.name,UID:.metadata.uid")); d != "" {
		t.Errorf("Slurm's pods changed (-before +after):\n%s", d)
	}
}

// A killed slinky up is gone on with by the next one, beside another box, and
// slinky down leaves nothing of either.
func TestKilledUpGoesOnAndDownLeavesNothing(t *testing.T) {
	first := open(t, "e2e-beside")
	b := &box{t: t, name: "e2e-killed", slinky: first.slinky, patience: patience}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := b.run(ctx, "", "down"); err != nil {
			t.Errorf("take the box down: %v", err)
		}
		if left := traces(t, "slinky-"+b.name); len(left) > 0 {
			t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
		}
	})
	// Killed when there is a container, and again when there is a node: the two
	// places where the most is half done.
	for _, mark := range []string{"control-plane", "node-1"} {
		b.killUpAt(mark)
	}
	b.must("", "up", "--bare", "--nodes", "1")
	if out := b.kubectl("wait", "node/node-1", "--for=condition=Ready", "--timeout=1m"); !strings.Contains(out, "condition met") {
		t.Errorf("the node of the second box: %s", out)
	}
	first.kubectl("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=1m")
}

// killUpAt starts slinky up and kills it as soon as a container of the box exists.
func (b *box) killUpAt(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.slinky, "up", "--name", b.name, "--bare", "--nodes", "1")
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			b.t.Fatalf("slinky up ended before it could be killed at %s: %v", name, err)
		case <-poll.C:
		}
		if len(cgroups(b.t, "slinky-"+b.name+"/"+name)) > 0 {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	<-ended
}

// traces are the cgroups, mounts and network namespaces that bear a name.
func traces(t *testing.T, name string) []string {
	t.Helper()
	left := cgroups(t, name)
	namespaces, err := filepath.Glob("/run/netns/" + name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	left = append(left, namespaces...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "/boxes/"+strings.TrimPrefix(name, "slinky-")+"/") {
			left = append(left, line)
		}
	}
	return left
}

// cgroups finds a group in the hierarchies of cgroup v1, or in the one of v2, at
// the top or below the group that the tests run in.
func cgroups(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(path, "/"+name) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
