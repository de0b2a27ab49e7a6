package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// missingDevice is a NodeSet whose slurmd doesn't start: gres.conf names a device file for it
// that no machine has.
const missingDevice = `---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: gpu}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  oversubscribeNode: true
  extraConf: CPUs=4 CoresPerSocket=4 Gres=gpu:1
  template: {spec: {terminationGracePeriodSeconds: 5, tolerations: [{operator: Exists}]}}
`

const keptState = `  persistence: {enabled: true, resources: {requests: {storage: 1Gi}}}
`

// TestBadConfiguration gives a working cluster what only a daemon can tell to be wrong.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-bad-config")
	good := leanConf + "    GresTypes=gpu\n"
	manifest := strings.Replace(b.lean(keptState+good, 1), "data:\n", "data:\n  gres.conf: |\n    NodeName=gpu-0 Name=gpu File=/dev/missing0\n", 1)
	c := b.cluster(missingDevice + "---\n" + manifest)
	c.nodesAre("idle", "cpu-0")
	job := c.job("cpu-0", 45)

	t.Run("a worker's slurmd doesn't start", func(t *testing.T) {
		c := c.on(t)
		c.degraded("nodeset/gpu", "pod gpu-0, container slurmd ended with code 1", "/dev/missing0")
		c.wait("nodeset/cpu", "condition=Degraded=False")
		c.kubectl("delete", "-n", c.namespace, "nodeset/gpu")
	})
	c.until("the configuration is kept", func(ctx context.Context) error {
		_, err := c.run(ctx, "", c.command("sh", "-c", "cat /var/spool/slurmctld/*/slinky-config/good/slurm.conf")...)
		return err
	})
	t.Run("a value that slurmctld refuses", func(t *testing.T) {
		c := c.on(t)
		c.extraConf(good + "    SelectType=select/foo\n")
		c.worksOn("fatal: Unable to process configuration file")
		c.extraConf(good + "    KillWait=31\n")
		c.wait("controller/slurm", "condition=Degraded=False")
		c.until("the corrected configuration counts", func(ctx context.Context) error {
			out, err := c.run(ctx, "", c.command("scontrol", "show", "config")...)
			if err == nil && !strings.Contains(out, "31 sec") {
				err = fmt.Errorf("KillWait isn't 31")
			}
			return err
		})
	})
	t.Run("a malformed topology.yaml", func(t *testing.T) {
		c := c.on(t)
		// What worked before this is kept once it has run for a while.
		c.until("the corrected configuration is kept", func(ctx context.Context) error {
			_, err := c.run(ctx, "", c.command("sh", "-c", "grep KillWait=31 /var/spool/slurmctld/*/slinky-config/good/slurm.conf")...)
			return err
		})
		c.kubectl("patch", "configmap", "slurm-files", "-n", c.namespace, "--type=merge", "-p", `{"data":{"topology.yaml":"- topology: [\n"}}`)
		c.worksOn("topology")
		c.kubectl("patch", "configmap", "slurm-files", "-n", c.namespace, "--type=merge", "-p", `{"data":{"topology.yaml":null}}`)
		c.wait("controller/slurm", "condition=Degraded=False")
	})
	c.endsWell(job)
}

// worksOn waits until the Controller says what slurmctld refuses, and sees that jobs are taken.
func (c *cluster) worksOn(words string) {
	c.t.Helper()
	c.degraded("controller/slurm", "works on with the configuration of 2", words)
	c.wait("controller/slurm", "condition=Ready")
	// Commands beside slurmctld read what it refuses; a worker has what slurmctld works with.
	out := c.kubectl("exec", "-n", c.namespace, "cpu-0", "-c", "slurmd", "--", "srun", "--nodelist=cpu-0", "--chdir=/tmp", "hostname")
	if strings.TrimSpace(out) != "cpu-0" {
		c.t.Errorf("a job prints %q", out)
	}
}

// degraded waits until an object's condition has all these words.
func (c *cluster) degraded(object string, words ...string) {
	c.t.Helper()
	c.until(object+" says what is wrong", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "-n", c.namespace, object, "-o", `jsonpath={.status.conditions[?(@.type=="Degraded")].message}`)
		if err != nil {
			return err
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				return fmt.Errorf("it says %q, not %q", out, w)
			}
		}
		return nil
	})
}

// extraConf sets the Controller's, given as in a manifest.
func (c *cluster) extraConf(text string) {
	c.t.Helper()
	text = strings.ReplaceAll(strings.TrimPrefix(text, "  extraConf: |\n"), "    ", "")
	patch, err := json.Marshal(map[string]any{"spec": map[string]string{"extraConf": text}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("patch", "controller", "slurm", "-n", c.namespace, "--type=merge", "-p", string(patch))
}
