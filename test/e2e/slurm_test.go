package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// primes below 2,000,000, which the examples count.
const primes = "primes below 2000000: 148933"

// idleWorkers are the Slurm nodes of the default partition that wait for work.
func idleWorkers(ctx context.Context, b *box) ([]string, error) {
	partition, err := defaultPartition(ctx, b)
	if err != nil {
		return nil, err
	}
	out, err := b.run(ctx, "", "slurm", "sinfo", "--noheader", "--Node", "--partition", partition, "--states", "idle", "--format", "%N")
	return slices.Compact(slices.Sorted(slices.Values(strings.Fields(out)))), err
}

// defaultPartition is the one that sinfo marks with a star.
func defaultPartition(ctx context.Context, b *box) (string, error) {
	out, err := b.run(ctx, "", "slurm", "sinfo", "--noheader", "--summarize", "--format", "%P")
	if err != nil {
		return "", err
	}
	for name := range strings.FieldsSeq(out) {
		if partition, ok := strings.CutSuffix(name, "*"); ok {
			return partition, nil
		}
	}
	return "", fmt.Errorf("no partition is the default one: %s", out)
}

// twoIdle waits for the two workers that the stories need, and returns all that are idle.
func twoIdle(b *box) []string {
	b.t.Helper()
	var idle []string
	b.until("two workers are idle", func(ctx context.Context) (err error) {
		if idle, err = idleWorkers(ctx, b); err == nil && len(idle) < 2 {
			err = fmt.Errorf("idle are %q", idle)
		}
		return err
	})
	return idle
}

func TestSrunOverTwoNodes(t *testing.T) {
	b := open(t, "e2e-srun")
	idle := twoIdle(b)
	out := b.slurm("", "srun", "--nodes=2", "--ntasks-per-node=1", "bash", "-c", "echo $SLURMD_NODENAME")
	ran := slices.Sorted(slices.Values(strings.Fields(out)))
	if len(slices.Compact(slices.Clone(ran))) != 2 {
		t.Fatalf("srun over two nodes ran on %q", ran)
	}
	for _, node := range ran {
		if !slices.Contains(idle, node) {
			t.Errorf("srun ran on %s, which is none of the idle workers %q", node, idle)
		}
	}
}

func TestSbatchOverTwoNodes(t *testing.T) {
	b := open(t, "e2e-sbatch")
	twoIdle(b)
	job := strings.TrimSpace(b.slurm(example(t, "primes/job.sh"), "sbatch", "--parsable", "--wait"))
	t.Cleanup(func() { b.discard("slurm", "rm", "-f", "primes-"+job+".out") })
	out := b.slurm("", "cat", "primes-"+job+".out")
	if !strings.Contains(out, primes) {
		t.Errorf("output of job %s:\n%s\nwant a line %q", job, out, primes)
	}
	if got := field(b.slurm("", "scontrol", "show", "job", job, "--oneliner"), "JobState"); got != "COMPLETED" {
		t.Errorf("job %s is %s, want COMPLETED", job, got)
	}
}

func TestScancel(t *testing.T) {
	b := open(t, "e2e-scancel")
	twoIdle(b)
	job := strings.TrimSpace(b.slurm("#!/bin/bash\nexec srun sleep 3600\n", "sbatch", "--parsable", "--nodes=2", "--output=/dev/null"))
	t.Cleanup(func() { b.discard("slurm", "scancel", job) })
	b.jobState(job, "RUNNING")
	b.slurm("", "scancel", job)
	b.jobState(job, "CANCELLED")
	twoIdle(b)
}

// discard cleans up after a test whose own context has ended. What it can't do, the end of the box does.
func (b *box) discard(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := b.run(ctx, "", args...); err != nil {
		b.t.Logf("clean up: %v", err)
	}
}

// A second Slurm cluster, made from the example's custom resources in another
// namespace, runs a job over two nodes and goes away without a trace.
func TestClusterFromCustomResources(t *testing.T) {
	b := open(t, "e2e-cluster")
	b.wait("configmap/kube-root-ca.crt", "create") // Kubernetes' own, in every namespace
	empty := b.kubectl("get", "-n", b.namespace, everything, "-o", "name")
	manifest := b.exampleCluster()
	c := b.cluster(manifest)
	c.nodesAre("idle", "cpu-0", "cpu-1")
	ran := c.slurm("", "srun", "--nodes=2", "--ntasks-per-node=1", "hostname")
	if d := cmp.Diff([]string{"cpu-0", "cpu-1"}, hosts(ran)); d != "" {
		t.Errorf("srun over two nodes (-want +got):\n%s", d)
	}
	b.must(manifest, "kubectl", "delete", "--wait", "--timeout="+patience.String(), "-f", "-")
	b.kubectl("wait", "-n", b.namespace, "pod", "--all", "--for=delete", "--timeout="+patience.String())
	b.kubectl("delete", "-n", b.namespace, "secret", "slurm-auth-slurm", "slurm-auth-jwt")
	b.until("nothing is left of the cluster", func(ctx context.Context) error {
		left, err := b.run(ctx, "", "kubectl", "get", "-n", b.namespace, everything, "-o", "name")
		if err == nil {
			if d := cmp.Diff(empty, left); d != "" {
				err = fmt.Errorf("the namespace changed (-before +now):\n%s", d)
			}
		}
		return err
	})
}

// everything that the operator may make for a cluster. Volumes hold users' data and outlive it.
const everything = "pods,services,configmaps,secrets,statefulsets,deployments,replicasets,poddisruptionbudgets,controllerrevisions"
