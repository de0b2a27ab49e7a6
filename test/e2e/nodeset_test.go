package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// counts is a job that ends well only if it computed the right thing, after some seconds.
const counts = "#!/bin/bash\nfor i in $(seq %d); do sleep 1; n=$((n+i)); done\n[ $n = $((%d*(%d+1)/2)) ]\n"

// job runs for some seconds on one node.
func (c *cluster) job(node string, seconds int, options ...string) string {
	c.t.Helper()
	script := fmt.Sprintf(counts, seconds, seconds, seconds)
	id := c.submit(script, append([]string{"--nodelist=" + node, "--time=10", "--output=/dev/null", "--chdir=/tmp"}, options...)...)
	c.jobIs(id, "RUNNING")
	return id
}

// endsWell waits until a job has ended with its right result, without having been begun again.
func (c *cluster) endsWell(job string) {
	c.t.Helper()
	ended := ""
	c.until("job "+job+" has ended", func(ctx context.Context) (err error) {
		ended, err = c.run(ctx, "", c.command("scontrol", "show", "job", job, "--oneliner")...)
		if state := field(ended, "JobState"); err == nil && (state == "RUNNING" || state == "COMPLETING" || state == "PENDING") {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	if field(ended, "JobState") != "COMPLETED" || field(ended, "Restarts") != "0" || field(ended, "ExitCode") != "0:0" {
		c.t.Errorf("job %s: %s", job, ended)
	}
}

// change patches the NodeSet.
func (c *cluster) change(set, patch string) {
	c.t.Helper()
	c.kubectl("patch", "nodeset", set, "-n", c.namespace, "--type=merge", "-p", patch)
}

// workers are the UIDs of a NodeSet's pods that aren't terminating, by pod name.
func (c *cluster) workers(ctx context.Context, set string) (map[string]corev1.Pod, error) {
	out, err := c.run(ctx, "", "kubectl", "get", "pods", "-n", c.namespace, "-l", "app.kubernetes.io/instance="+set+",app.kubernetes.io/name=slurmd", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods[p.Name] = p
		}
	}
	return pods, nil
}

// workersAre waits until a NodeSet has exactly these pods.
func (c *cluster) workersAre(set string, want ...string) {
	c.t.Helper()
	c.until(fmt.Sprintf("the workers are %v", want), func(ctx context.Context) error {
		pods, err := c.workers(ctx, set)
		if have := slices.Sorted(maps.Keys(pods)); err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("they are %v", have)
		}
		return err
	})
}

// replaced waits until all of a NodeSet's pods are ready and others than before.
func (c *cluster) replaced(set string, before map[string]corev1.Pod) {
	c.t.Helper()
	c.until("all workers are replaced", func(ctx context.Context) error {
		pods, err := c.workers(ctx, set)
		if err != nil {
			return err
		}
		for name, p := range pods {
			if p.UID == before[name].UID || !podReady(p) {
				return fmt.Errorf("%s is the old one or not ready", name)
			}
		}
		if len(pods) != len(before) {
			return fmt.Errorf("%d of %d workers", len(pods), len(before))
		}
		return nil
	})
}

func podReady(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// all returns the workers of a NodeSet.
func (c *cluster) all(set string) map[string]corev1.Pod {
	c.t.Helper()
	pods, err := c.workers(c.t.Context(), set)
	if err != nil {
		c.t.Fatal(err)
	}
	return pods
}

// A NodeSet's whole life on one cluster, with jobs running through all of it.
func TestNodeSetLife(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-nodeset")
	manifest := strings.Replace(b.exampleCluster(), "  replicas: 2\n", "  replicas: 3\n  oversubscribeNode: true\n", 1)
	c := b.cluster(manifest)
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")

	for _, story := range []struct {
		name string
		tell func(c *cluster)
	}{
		{"check 27: scale-in takes the worker without a job", (*cluster).testVictim},
		{"check 29: a scale-in that is taken back", (*cluster).testTakenBack},
		{"check 35: a rolling update, with the operator restarted in the middle", (*cluster).testRolling},
		{"check 37: an update in a maintenance window", (*cluster).testScheduled},
		{"check 26: scale-in to one, the highest ordinals first", (*cluster).testHighestFirst},
		{"a deleted NodeSet lets its jobs end", (*cluster).testDeletion},
		{"check 42: one worker on each node that fits", (*cluster).testDaemonSet},
	} {
		goesOn := t.Run(story.name, func(t *testing.T) {
			here := *b
			here.t = t
			story.tell(&cluster{&here})
		})
		if !goesOn {
			return // each begins where the one before ended
		}
	}
}

func (c *cluster) testHighestFirst() {
	// A worker that isn't ready, or that still drains from the update, would go before the ordinals count.
	c.wait("nodeset.slinky.slurm.net/cpu", "condition=Progressing=False")
	c.change("cpu", `{"spec":{"replicas":1}}`)
	c.workersAre("cpu", "cpu-0")
	c.nodesAre("idle", "cpu-0") // the records of the others are gone
}

func (c *cluster) testVictim() {
	// One that isn't ready would go first, job or not: Slurm may know a node before the kubelet calls its pod ready.
	c.wait("nodeset.slinky.slurm.net/cpu", "jsonpath={.status.readyReplicas}=3")
	job := c.job("cpu-2", 25)
	c.change("cpu", `{"spec":{"replicas":2}}`)
	c.workersAre("cpu", "cpu-0", "cpu-2")
	c.change("cpu", `{"spec":{"replicas":3}}`)
	c.workersAre("cpu", "cpu-0", "cpu-1", "cpu-2")
	c.endsWell(job)
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")
}

func (c *cluster) testDeletion() {
	job := c.job("cpu-0", 20)
	c.until("the NodeSet has its finalizer", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "nodeset", "cpu", "-n", c.namespace, "-o", "jsonpath={.metadata.finalizers}")
		if err == nil && !strings.Contains(out, v1beta1.FinalizerDrain) {
			err = fmt.Errorf("its finalizers are %s", out)
		}
		return err
	})
	c.kubectl("delete", "nodeset", "cpu", "-n", c.namespace, "--timeout="+patience.String())
	c.endsWell(job)
}

func (c *cluster) testTakenBack() {
	var jobs []string
	for i := range 3 {
		jobs = append(jobs, c.job(fmt.Sprintf("cpu-%d", i), 25))
	}
	before := c.all("cpu")
	c.change("cpu", `{"spec":{"replicas":1}}`)
	c.until("two nodes drain", func(ctx context.Context) error { return c.draining(ctx, 2) })
	c.change("cpu", `{"spec":{"replicas":3}}`)
	c.until("no node drains", func(ctx context.Context) error { return c.draining(ctx, 0) })
	for _, job := range jobs {
		c.endsWell(job)
	}
	for name, p := range c.all("cpu") {
		if p.UID != before[name].UID {
			c.t.Errorf("%s was replaced", name)
		}
	}
}

// draining is an error unless n nodes take no more jobs.
func (c *cluster) draining(ctx context.Context, n int) error {
	states, err := c.nodeStates(ctx)
	if err != nil {
		return err
	}
	have := 0
	for _, state := range states {
		if strings.HasPrefix(state, "drain") {
			have++
		}
	}
	if have != n {
		return fmt.Errorf("sinfo says %v", states)
	}
	return nil
}

func (c *cluster) testRolling() {
	jobs := []string{c.job("cpu-0", 30), c.job("cpu-1", 15)}
	before := c.all("cpu")
	c.change("cpu", `{"spec":{"extraConf":"Weight=5","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}}}`)
	c.until("a worker is replaced", func(ctx context.Context) error {
		pods, err := c.workers(ctx, "cpu")
		if err == nil && (pods["cpu-2"].UID == "" || pods["cpu-2"].UID == before["cpu-2"].UID) {
			err = fmt.Errorf("cpu-2 is the old one")
		}
		return err
	})
	c.kubectl("delete", "pod", "-n", "slinky", "-l", "app.kubernetes.io/name=slurm-operator", "--wait=false")
	for _, job := range jobs {
		c.endsWell(job)
	}
	c.replaced("cpu", before)
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")
}

func (c *cluster) testScheduled() {
	before := c.all("cpu")
	window := func(in time.Duration) time.Time {
		start := time.Now().Add(in).UTC()
		c.change("cpu", fmt.Sprintf(`{"spec":{"extraConf":"Weight=6","updateStrategy":{"type":"ScheduledUpdate","scheduledUpdate":{"startTime":%q,"duration":"5m"}}}}`,
			start.Format(time.RFC3339)))
		return start
	}
	// Late enough for a job to run before it on the slowest of machines.
	window(time.Hour)
	// A worker that has only just registered again joins the reservation a moment later.
	c.until("the reservation holds all workers", func(ctx context.Context) error {
		reservation, err := c.run(ctx, "", c.command("scontrol", "show", "reservation", "SlurmOperatorMaint-cpu", "--oneliner")...)
		if err != nil {
			return err
		}
		if flags := field(reservation, "Flags"); !strings.Contains(flags, "MAINT") || !strings.Contains(flags, "IGNORE_JOBS") || field(reservation, "Nodes") != "cpu-[0-2]" {
			return fmt.Errorf("it is %s", reservation)
		}
		return nil
	})
	job := c.job("cpu-1", 5)
	c.endsWell(job)
	start := window(20 * time.Second)
	c.until("the workers are old until the window opens", func(ctx context.Context) error {
		pods, err := c.workers(ctx, "cpu")
		if err != nil {
			return err
		}
		for name, p := range pods {
			if p.UID != before[name].UID {
				if time.Now().Before(start) {
					c.t.Errorf("%s was replaced at %s, before the window", name, time.Now())
				}
				return nil
			}
		}
		return fmt.Errorf("all are old")
	})
	c.replaced("cpu", before)
	c.change("cpu", `{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	c.until("the reservation is gone", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("scontrol", "show", "reservation", "--oneliner")...)
		if err == nil && strings.Contains(out, v1beta1.ReservationPrefix) {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
	c.nodesAre("idle", "cpu-0", "cpu-1", "cpu-2")
}

const eachNode = `apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: each
spec:
  controllerRef: {name: slurm}
  scalingMode: DaemonSet
  oversubscribeNode: true
  partition: {enabled: true, config: State=UP}
  template:
    spec:
      terminationGracePeriodSeconds: 10
      tolerations:
        - {key: slinky.slurm.net/managed-node, operator: Exists}
`

func (c *cluster) testDaemonSet() {
	var nodes corev1.NodeList
	out := c.kubectl("get", "nodes", "-o", "json")
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		c.t.Fatal(err)
	}
	var want []string
	for _, n := range nodes.Items {
		if !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key != v1beta1.TaintManagedNode }) {
			short, _, _ := strings.Cut(n.Name, ".")
			want = append(want, short)
		}
	}
	slices.Sort(want)
	c.apply(eachNode)
	c.nodesAre("idle", slices.Concat(slices.Sorted(maps.Keys(c.all("cpu"))), want)...)
	for name, p := range c.all("each") {
		if p.Spec.NodeName != p.Spec.Hostname && !strings.HasPrefix(p.Spec.NodeName, p.Spec.Hostname+".") {
			c.t.Errorf("pod %s is on %s as %s", name, p.Spec.NodeName, p.Spec.Hostname)
		}
	}
	job := c.job(want[0], 5, "--partition=each")
	c.endsWell(job)
	c.kubectl("delete", "nodeset", "each", "-n", c.namespace)
}
