package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The operator that the box runs leaves this namespace to others.
const ownNamespace = "own-operator"

// clusterValues are small, and bear the taint of the bridge's nodes.
const clusterValues = `
configFiles:
  cgroup.conf: |
    CgroupPlugin=autodetect
    IgnoreSystemd=yes
controller:
  extraConfMap:
    SelectType: select/cons_tres
    ProctrackType: proctrack/linuxproc
    TaskPlugin: task/none
    ReturnToService: 2
  persistence:
    resources: {requests: {storage: 100Mi}}
  slurmctld:
    resources: {requests: {cpu: 20m, memory: 64Mi}}
  podSpec: &pod
    terminationGracePeriodSeconds: 5
    tolerations: [{key: slinky.slurm.net/managed-node, operator: Exists}]
restapi:
  slurmrestd:
    resources: {requests: {cpu: 20m, memory: 64Mi}}
  podSpec: *pod
nodesets:
  cpu:
    slurmd:
      resources: {requests: {cpu: 20m, memory: 64Mi}}
    podSpec: *pod
partitions:
  all:
    enabled: true
`

// installOperator installs a second operator that may act in the test's namespace alone.
func (b *box) installOperator() {
	b.t.Helper()
	b.must("", "helm", "install", "own", "../../charts/slurm-operator", "--namespace", b.namespace, "--wait", "--timeout="+patience.String(),
		"--set", "operator.namespaces="+b.namespace, "--set", "rbac.namespaced=true", "--set", "webhook.enabled=false",
		"--set", "operator.image=ghcr.io/slinky-hpc/operator:dev", "--set", "operator.metricsPort=0",
		"--set-json", `operator.tolerations=[{"key":"slinky.slurm.net/managed-node","operator":"Exists"}]`)
}

// helmCluster installs or upgrades the cluster of the test by the chart.
func (b *box) helmCluster(args ...string) {
	b.t.Helper()
	b.must(clusterValues, append([]string{"helm", "upgrade", "--install", "slurm", "../../charts/slurm", "--namespace", b.namespace,
		"--values", "../../charts/slurm/examples/slinky-hpc-images.yaml", "--values", "-"}, args...)...)
}

// uids are those of the cluster's pods, without the operator's.
func (b *box) uids() string {
	b.t.Helper()
	return b.kubectl("get", "pods", "-n", b.namespace, "-l", "app.kubernetes.io/name in (slurmd,slurmctld,slurmrestd)", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
}

// workerUIDs are those of the workers alone: slurmctld starts again when its configuration changes.
func workerUIDs(uids string) string {
	var out strings.Builder
	for line := range strings.Lines(uids) {
		if strings.Contains(line, "worker") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// A cluster by the chart, kept by an operator with rights in one namespace; its job outlives
// a changed value, the operator's end, and the coming of a new operator.
func TestCheck57RemovingTheOperatorLeavesTheCluster(t *testing.T) {
	t.Parallel()
	b := open(t, ownNamespace)
	b.installOperator()
	b.helmCluster()
	// Without an operator nobody would take the finalizers off.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, release := range []string{"slurm", "own"} {
			if out, err := b.run(ctx, "", "helm", "uninstall", release, "--namespace", b.namespace, "--ignore-not-found", "--cascade=foreground", "--wait"); err != nil {
				t.Errorf("uninstall %s: %v\n%s", release, err, out)
			}
		}
	})
	// slurmctld starts once more if it was there before the chart's NodeSet.
	b.wait("controller/slurm", "condition=Progressing=False")
	b.wait("controller/slurm", "condition=Ready")
	c := &cluster{box: b}
	c.nodesAre("idle", "cpu-0")
	if out := strings.TrimSpace(c.slurm("", "srun", "hostname")); out != "cpu-0" {
		t.Fatalf("srun hostname printed %q", out)
	}
	job := c.submit("#!/bin/bash\nuntil [ -e /tmp/end ]; do sleep 0.2; done\n", "--output=/dev/null")
	c.jobIs(job, "RUNNING")
	before := b.uids()

	b.helmCluster("--set", "partitions.all.configMap.MaxTime=2:00:00")
	c.until("the partition has the new limit", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("scontrol", "show", "partition", "all", "--oneliner")...)
		if err == nil && field(out, "MaxTime") != "02:00:00" {
			err = fmt.Errorf("MaxTime is %s", field(out, "MaxTime"))
		}
		return err
	})
	b.wait("pod/slurm-controller-0", "condition=Ready")
	c.jobIs(job, "RUNNING")
	upgraded := b.uids()
	if workerUIDs(before) != workerUIDs(upgraded) {
		t.Errorf("the changed value replaced workers: before\n%safter\n%s", before, upgraded)
	}

	b.must("", "helm", "uninstall", "own", "--namespace", b.namespace, "--wait")
	c.jobIs(job, "RUNNING")
	b.kubectl("exec", "-n", b.namespace, "slurm-worker-cpu-0", "-c", "slurmd", "--", "touch", "/tmp/end")
	c.jobIs(job, "COMPLETED")
	if out := strings.TrimSpace(c.slurm("", "srun", "hostname")); out != "cpu-0" {
		t.Errorf("without an operator, srun hostname printed %q", out)
	}
	if now := b.uids(); now != upgraded {
		t.Errorf("the operator's end changed pods: before\n%safter\n%s", upgraded, now)
	}

	b.installOperator()
	b.wait("nodeset/slurm-worker-cpu", "condition=Ready")
	b.wait("controller/slurm", "condition=Ready")
	if now := b.uids(); now != upgraded {
		t.Errorf("a new operator changed pods: before\n%safter\n%s", upgraded, now)
	}
}
