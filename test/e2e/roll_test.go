package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A new template reaches two slurmctld while a job runs over two nodes: the standby first.
func TestTemplateReachesTheStandbyFirst(t *testing.T) {
	b := open(t, "e2e-roll")
	t.Parallel()
	t.Cleanup(func() { b.drop("pv", "e2e-roll-state") })
	c := b.cluster(b.pair())
	c.nodesAre("idle", "cpu-0", "cpu-1")
	c.inControl("slurm-controller-0")
	const active, standby = "slurm-controller-0", "slurm-controller-1"
	job := c.submit("#!/bin/bash\nuntil [ -e /tmp/rolled ]; do sleep 1; done\nsrun true\n", "--nodes=2", "--output=/dev/null")
	c.jobIs(job, "RUNNING")
	c.saved(job)
	worker := c.batchHost(job)

	before := c.uids(active, standby)
	c.kubectl("patch", "-n", c.namespace, "controllers.slinky.slurm.net/slurm", "--type=merge", "-p", `{"spec":{"template":{"metadata":{"annotations":{"example.com/roll":"1"}}}}}`)
	c.until("both slurmctld have the new template", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "pods", "-n", c.namespace, "-l", "app.kubernetes.io/name=slurmctld", "-o", "json")
		if err != nil {
			return err
		}
		var pods corev1.PodList
		if err := decode(out, &pods); err != nil {
			return err
		}
		renewed := map[string]bool{}
		for i := range pods.Items {
			p := &pods.Items[i]
			renewed[p.Name] = string(p.UID) != before[p.Name] && p.Annotations["example.com/roll"] == "1"
		}
		if renewed[active] && !renewed[standby] {
			t.Error("the active slurmctld was replaced before its standby")
		}
		if !renewed[active] || !renewed[standby] {
			return errors.New("an old one is left")
		}
		return nil
	})
	c.inControl(active) // it is the primary, and comes back
	c.must("", c.beside(worker, "touch", "/tmp/rolled")...)
	c.jobIs(job, "COMPLETED")
	c.nodesAre("idle", "cpu-0", "cpu-1")
}
