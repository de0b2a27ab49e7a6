package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// While slurmrestd is frozen, pods are created and repaired, and nothing is deleted or
// drained; when it answers again, what was asked for meanwhile is done.
func TestCheck31WorkersWithoutSlurmsAnswer(t *testing.T) {
	b := open(t, "e2e-away")
	t.Parallel()
	c := b.cluster(b.lean(leanState+leanConf, 2))
	c.nodesAre("idle", "cpu-0", "cpu-1")
	scale := func(n int) {
		c.kubectl("scale", "-n", c.namespace, "nodeset/cpu", fmt.Sprintf("--replicas=%d", n))
	}
	rest := func(signal string) {
		c.kubectl("exec", "-n", c.namespace, "deployment/slurm-restapi", "-c", "slurmrestd", "--", "bash", "-c",
			`for p in /proc/[0-9]*; do case "$(cat $p/comm 2>/dev/null)" in slurmrestd*) kill -`+signal+` ${p#/proc/};; esac; done`)
	}

	rest("STOP")
	frozen := time.Now()
	old := c.uids("cpu-1")["cpu-1"]
	c.kubectl("delete", "pod", "-n", c.namespace, "cpu-1", "--grace-period=0", "--force")
	scale(3)
	c.until("the lost worker is made again, and a third one", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "pods", "-n", c.namespace, "-l", "app.kubernetes.io/name=slurmd", "-o", "jsonpath={range .items[*]}{.metadata.name}={.metadata.uid} {end}")
		names := strings.Fields(out)
		if err == nil && (len(names) != 3 || slices.Contains(names, "cpu-1="+old)) {
			err = fmt.Errorf("there are %q", names)
		}
		return err
	})
	t.Logf("pods were made %s after slurmrestd froze", time.Since(frozen).Round(time.Millisecond))
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")

	scale(1)
	// What Slurm said last is good for 20 seconds: only then is it unknown.
	c.until("the NodeSet says that it waits for Slurm", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "-n", c.namespace, "nodeset/cpu", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
		if err == nil && !strings.Contains(out, "gives no current answer") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	if pods := c.uids("cpu-0", "cpu-1", "cpu-2"); len(pods) != 3 {
		t.Errorf("workers are gone: %v", pods)
	}
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")

	rest("CONT")
	answered := time.Now()
	c.kubectl("wait", "pod", "-n", c.namespace, "cpu-1", "cpu-2", "--for=delete", "--timeout=60s")
	t.Logf("the scale-in was done %s after slurmrestd came back", time.Since(answered).Round(time.Millisecond))
	c.nodesAre("idle", "cpu-0")
}
