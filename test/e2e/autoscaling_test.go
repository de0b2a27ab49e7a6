package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// A NodeSet at zero takes jobs of several nodes and arrays, gets the workers for them, and goes back to zero.
func TestJobsBringWorkersFromZeroAndBack(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-autoscaling")
	c := b.cluster(strings.Replace(b.exampleCluster(), "  replicas: 2\n", `  replicas: 0
  oversubscribeNode: true
  extraConf: Feature=cloud
  autoscaling:
    maxReplicas: 3
    idleTime: 15s
    capacity: {cpus: 2, memory: 900Mi}
`, 1))

	// Slurm shows what could be started, and takes jobs for it by its features.
	c.sparesAre(3)
	start := time.Now()
	wide := c.submit("#!/bin/sh\nsrun hostname\n", "-D", "/tmp", "-o", "/dev/null", "-N2", "-C", "cloud", "--mem=200")
	array := c.submit("#!/bin/sh\nexec hostname\n", "-D", "/tmp", "-o", "/dev/null", "--array=0-5", "--mem=200", "-c2")
	if out, err := c.run(t.Context(), "#!/bin/sh\nhostname\n", c.command("sbatch", "-C", "nosuch")...); err == nil || !strings.Contains(err.Error(), "Invalid feature") {
		t.Errorf("Slurm takes a job for a feature that no worker has: %s, %v", out, err)
	}
	c.until("a worker runs a job", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("scontrol", "show", "job", wide, "--oneliner")...)
		if err == nil && field(out, "JobState") == "PENDING" {
			err = fmt.Errorf("job %s waits: %s", wide, field(out, "Reason"))
		}
		return err
	})
	t.Logf("the job of two nodes started %s after it was submitted to a cluster without a worker", time.Since(start).Round(time.Second))
	c.jobIs(wide, "COMPLETED")
	for task := range 6 {
		c.jobIs(fmt.Sprintf("%s_%d", array, task), "COMPLETED")
	}
	if out := c.kubectl("get", "nss", "-n", b.namespace, "cpu", "-o", "wide"); !strings.Contains(out, "AUTOSCALING") || !strings.Contains(out, "worker") {
		t.Errorf("kubectl get -o wide doesn't say why there are so many workers:\n%s", out)
	}
	c.wait("nss/cpu", "jsonpath={.spec.replicas}=0")
	c.sparesAre(3)
	var set v1beta1.NodeSet
	c.get(&set, "nss", "cpu")
	if set.Status.Autoscaling == nil || set.Status.Autoscaling.Worker == nil || set.Status.Autoscaling.Worker.CPUs == 0 {
		t.Errorf("what the workers offered is forgotten: %+v", set.Status.Autoscaling)
	}
	if events := c.kubectl("get", "events", "-n", b.namespace, "--field-selector", "reason=Autoscaling"); !strings.Contains(events, "scaling from 0 to") {
		t.Errorf("no event tells of the first workers:\n%s", events)
	}
	c.wait("pods/cpu-0", "delete")
	t.Run("check 8: kubectl scale and a HorizontalPodAutoscaler", func(t *testing.T) { c.testScale(t) })
}

// sparesAre waits until the cluster's only nodes are so many that stand for workers. Once slurmctld
// has looked for a slurmd on them they are "down*".
func (c *cluster) sparesAre(n int) {
	c.t.Helper()
	c.until(fmt.Sprintf("%d workers that could be started are shown", n), func(ctx context.Context) error {
		states, err := c.nodeStates(ctx)
		for i := range n {
			name := fmt.Sprintf("cpu_spare%d", i)
			if err == nil && (len(states) != n || strings.TrimSuffix(states[name], "*") != "down") {
				err = fmt.Errorf("sinfo says %v", states)
			}
		}
		return err
	})
}

// testScale scales a NodeSet whose pods find no node: it is about numbers.
func (c *cluster) testScale(t *testing.T) {
	c.apply(`
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: plain}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  template: {spec: {nodeSelector: {no: such-node}}}
`)
	c.kubectl("scale", "-n", c.namespace, "nss/plain", "--replicas=3")
	c.wait("nss/plain", "jsonpath={.status.replicas}=3")
	c.apply(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: plain}
spec:
  scaleTargetRef: {apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: plain}
  minReplicas: 1
  maxReplicas: 2
`)
	c.wait("nss/plain", "jsonpath={.spec.replicas}=2")
	c.wait("nss/plain", "jsonpath={.status.replicas}=2")
	var hpa autoscalingv2.HorizontalPodAutoscaler
	c.get(&hpa, "hpa", "plain")
	if hpa.Status.DesiredReplicas != 2 {
		t.Errorf("the HorizontalPodAutoscaler wants %d workers, want its most, 2", hpa.Status.DesiredReplicas)
	}
	c.kubectl("delete", "-n", c.namespace, "hpa/plain", "nss/plain")
}
