package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A new slurm.key reaches every daemon while a job runs over two nodes: no worker is
// replaced, commands work all the time, and the job ends with its right result.
func TestCheck14SlurmKeyRotation(t *testing.T) {
	b := open(t, "e2e-keys")
	t.Parallel()
	c := b.cluster(b.lean(leanState+leanConf, 2))
	c.nodesAre("idle", "cpu-0", "cpu-1")
	before := c.uids("cpu-0", "cpu-1")

	job := c.submit("#!/bin/bash\nfor i in $(seq 25); do srun sleep 3 || exit 1; done\nsrun bash -c 'echo $SLURMD_NODENAME'\n", "--nodes=2", "--output=/tmp/rotated")
	c.jobIs(job, "RUNNING")
	host := c.batchHost(job) // asked now: slurmctld's pod is replaced when the old key goes
	old := c.ring()
	if strings.Count(old, `"kid"`) != 1 {
		t.Fatalf("the ring before: %s", old)
	}
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text()))
	c.kubectl("patch", "-n", c.namespace, "secret", "slurm-auth-slurm", "-p", `{"data":{"slurm.key":"`+key+`"}}`)
	for _, keys := range []int{2, 1} {
		c.until(fmt.Sprintf("the ring has %d keys", keys), func(ctx context.Context) error {
			out, err := c.run(ctx, "", c.command("sinfo", "--noheader", "--Node", "--format", "%N %T")...)
			if err == nil && (strings.Contains(out, "down") || strings.Contains(out, "*")) {
				t.Errorf("a worker was lost during the rotation:\n%s", out)
			}
			if n := strings.Count(c.ring(), `"kid"`); n != keys {
				return fmt.Errorf("it has %d", n)
			}
			return nil
		})
	}
	if c.ring() == old {
		t.Error("the ring is as it was")
	}
	if out, err := b.run(t.Context(), "", c.beside(host, "cat", "/tmp/rotated")...); err == nil {
		t.Logf("so far the job has said:\n%s", out)
	}
	c.jobIs(job, "COMPLETED")
	for name, uid := range c.uids("cpu-0", "cpu-1") {
		if before[name] != uid {
			t.Errorf("worker %s was replaced", name)
		}
	}
	c.nodesAre("idle", "cpu-0", "cpu-1")
	if out := hosts(c.slurm("", "srun", "--nodes=2", "bash", "-c", "echo $SLURMD_NODENAME")); strings.Join(out, " ") != "cpu-0 cpu-1" {
		t.Errorf("with the new key srun ran on %q", out)
	}
}

// ring is slurm.jwks as the cluster's pods mount it.
func (c *cluster) ring() string {
	c.t.Helper()
	var secret corev1.Secret
	c.get(&secret, "secret", "slurm-slurm-keys")
	return string(secret.Data["slurm.jwks"])
}

func (c *cluster) uids(pods ...string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, name := range pods {
		var pod corev1.Pod
		c.get(&pod, "pod", name)
		out[name] = string(pod.UID)
	}
	return out
}
