package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A cluster with inplaceReconfigure: its scripts run, what is written reaches slurmctld
// without a new pod, and a new JWT key doesn't part the operator from Slurm.
func TestCheck12And13And25InPlace(t *testing.T) {
	b := open(t, "e2e-inplace")
	t.Parallel()
	scripts, refs := allScripts()
	c := b.cluster(scripts + b.lean(`  inplaceReconfigure: true
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{operator: Exists}]
`+refs+leanConf, 1) + `---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: late}
spec:
  controllerRef: {name: slurm}
  replicas: 0
`)
	c.nodesAre("idle", "cpu-0")
	t.Run("S031: every script of every kind runs", func(*testing.T) { c.testScripts() })
	t.Run("checks 12b and 13: in place", func(t *testing.T) { c.testInPlace(t) })
	t.Run("check 25: a new JWT key", func(t *testing.T) { c.testJwtRotation(t) })
}

// scriptNames are the scripts of a kind in the order in which they run.
func scriptNames(kind string) []string {
	return []string{"10-" + kind + "-a.sh", "20-" + kind + "-b.sh", "30-" + kind + "-c.sh"}
}

// allScripts makes two ConfigMaps with scripts of each kind, where each script writes its
// name, and the lines of the Controller that refer to them.
func allScripts() (manifest, refs string) {
	for _, kind := range []string{"prolog", "epilog", "prologSlurmctld", "epilogSlurmctld"} {
		name := strings.ToLower(kind)
		file := func(name string) string {
			return fmt.Sprintf("  %s: |\n    #!/bin/sh\n    echo %s >>/tmp/ran-$SLURM_JOB_ID\n", name, name)
		}
		of := scriptNames(kind)
		for i, files := range []string{file(of[2]) + file(of[0]), file(of[1])} {
			manifest += fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata:\n%s---\n", name, i, files)
		}
		refs += fmt.Sprintf("  %[1]sScriptRefs: [{name: %[2]s-0}, {name: %[2]s-1}]\n", kind, name)
	}
	return manifest, refs
}

func (c *cluster) testScripts() {
	job := c.submit("#!/bin/bash\nexit 0\n", "--output=/dev/null")
	c.jobIs(job, "COMPLETED")
	ran := func(what string, in func(...string) []string, want []string, order func([]string) []string) {
		// Epilogs run after the job's end.
		c.until("all scripts ran beside "+what, func(ctx context.Context) error {
			out, err := c.run(ctx, "", in("cat", "/tmp/ran-"+job)...)
			if got := order(strings.Fields(out)); err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("these ran: %q, want %q", got, want)
			}
			return err
		})
	}
	ran("slurmd", func(args ...string) []string { return c.beside("cpu-0", args...) },
		slices.Concat(scriptNames("prolog"), scriptNames("epilog")), func(got []string) []string { return got })
	// slurmctld runs its own all at the same time.
	ran("slurmctld", c.command,
		slices.Sorted(slices.Values(slices.Concat(scriptNames("prologSlurmctld"), scriptNames("epilogSlurmctld")))),
		func(got []string) []string { return slices.Sorted(slices.Values(got)) })
}

// beside is the slinky command that runs args beside a worker's slurmd.
func (c *cluster) beside(pod string, args ...string) []string {
	return append([]string{"kubectl", "exec", "-i", "-n", c.namespace, pod, "-c", "slurmd", "--"}, args...)
}

func (c *cluster) testInPlace(t *testing.T) {
	before := c.uids("slurm-controller-0")
	start := time.Now()
	c.kubectl("patch", "-n", c.namespace, "nss/late", "--type=merge", "-p", `{"spec":{"partition":{"enabled":true,"config":"State=UP MaxTime=7"}}}`)
	c.kubectl("patch", "-n", c.namespace, "configmap/slurm-files", "-p", `{"data":{"topology.yaml":"- topology: shelf\n  cluster_default: true\n  flat: true\n"}}`)
	c.until("slurmctld has the new partition and topology.yaml", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("sh", "-c", "scontrol show partition late --oneliner && scontrol show topoconf")...)
		if err == nil && (field(out, "MaxTime") != "00:07:00" || !strings.Contains(out, "shelf")) {
			err = fmt.Errorf("scontrol says %s", out)
		}
		return err
	})
	t.Logf("Slurm had both after %s", time.Since(start).Round(time.Second))
	var pod corev1.Pod
	c.get(&pod, "pod", "slurm-controller-0")
	if string(pod.UID) != before["slurm-controller-0"] {
		t.Error("slurmctld's pod was replaced")
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.RestartCount > 0 {
			t.Errorf("container %s has started again: %+v", s.Name, s.LastTerminationState)
		}
	}
	c.nodesAre("idle", "cpu-0")
}

// testJwtRotation changes the key and then something in Slurm which only the operator's own
// client brings to a pod.
func (c *cluster) testJwtRotation(t *testing.T) {
	worker, before := c.uids("cpu-0"), c.uids("slurm-controller-0")
	key := rand.Text() + rand.Text()
	c.kubectl("patch", "-n", c.namespace, "secret", "slurm-auth-jwt", "-p", `{"data":{"jwt.key":"`+base64.StdEncoding.EncodeToString([]byte(key))+`"}}`)
	c.until("slurmctld has the new key", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("cat", "/etc/slurm/jwt.key")...)
		if err == nil && out != key {
			err = fmt.Errorf("it still has the old one")
		}
		return err
	})
	c.wait("pod/slurm-controller-0", "condition=Ready")
	start := time.Now()
	c.nodesAre("idle", "cpu-0")
	c.slurm("", "scontrol", "update", "nodename=cpu-0", "state=drain", "reason=check 25")
	c.wait("pod/cpu-0", "condition=SlurmNodeStateDrain")
	t.Logf("the operator's client worked %s after slurmctld had the new key", time.Since(start).Round(time.Second))
	if got := c.uids("cpu-0"); got["cpu-0"] != worker["cpu-0"] {
		t.Error("the worker was replaced")
	}
	if got := c.uids("slurm-controller-0"); got["slurm-controller-0"] == before["slurm-controller-0"] {
		t.Error("slurmctld's pod is the old one, whose slurmctld can't know the new key")
	}
}
