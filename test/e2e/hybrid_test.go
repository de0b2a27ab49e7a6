package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// outside is a slurmctld that no operator made, with the configuration which
// docs/guides/hybrid.md asks for. It is in the network of a machine and asks the machine's
// DNS, which knows no pods. Its name is what cluster's functions look for.
const outside = `
apiVersion: v1
kind: ConfigMap
metadata: {name: outside}
data:
  cgroup.conf: |
    CgroupPlugin=disabled
  slurm.conf: |
    ClusterName=site
    SlurmUser=slurm
    SlurmctldHost=%[1]s(%[2]s)
    SlurmctldPort=16817
    StateSaveLocation=/tmp/state
    SlurmdUser=root
    SlurmdSpoolDir=/var/spool/slurmd
    AuthType=auth/slurm
    CredType=cred/slurm
    AuthInfo=use_client_ids
    AuthAltTypes=auth/jwt
    AuthAltParameters=jwt_key=/etc/slurm/jwt.key
    SlurmctldParameters=enable_configless
    MaxNodeCount=1024
    NodeSet=cpu Feature=cpu
    PartitionName=cpu Nodes=cpu State=UP Default=YES
%[3]s---
apiVersion: v1
kind: Pod
metadata: {name: slurm-controller-0}
spec:
  hostNetwork: true
  dnsPolicy: Default
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  tolerations: [{operator: Exists}]
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 5
  securityContext: {runAsNonRoot: true, runAsUser: 401, runAsGroup: 401, fsGroup: 401}
  containers:
  - name: slurmctld
    image: ghcr.io/slinky-hpc/slurmctld:26.05-debian
    readinessProbe:
      httpGet: {path: /readyz, port: 16817}
      periodSeconds: 2
    volumeMounts:
    - {name: etc, mountPath: /etc/slurm, readOnly: true}
    - {name: state, mountPath: /tmp/state}
    - {name: run, mountPath: /run}
  volumes:
  - {name: state, emptyDir: {}}
  - {name: run, emptyDir: {medium: Memory}}
  - name: etc
    projected:
      defaultMode: 0400
      sources:
      - configMap: {name: outside}
      - secret: {name: slurm-auth-slurm}
      - secret: {name: slurm-auth-jwt}
---
`

// A NodeSet works for a slurmctld that is outside: its workers register there by their
// addresses, jobs run on them, and the operator drains and removes them by its RestApi.
func TestCheck17ExternalController(t *testing.T) {
	b := open(t, "e2e-hybrid")
	t.Parallel()
	host, address := b.machine()
	external := fmt.Sprintf("  clusterName: site\n  external: true\n  externalConfig: {host: %s, port: 16817}\n", address)
	_, lines, _ := strings.Cut(leanConf, "\n") // without the name of the field
	c := b.cluster(fmt.Sprintf(outside, host, address, lines) + b.lean(external, 2))
	c.nodesAre("idle", "cpu-0", "cpu-1")
	for _, kind := range []string{"statefulset", "service/slurm-controller"} {
		if out, err := c.run(t.Context(), "", "kubectl", "get", "-n", c.namespace, kind, "-o", "name"); err == nil && out != "" {
			t.Errorf("the operator made %s for an external slurmctld", out)
		}
	}

	job := c.submit("#!/bin/bash\nsrun bash -c 'echo $SLURMD_NODENAME'\n", "--nodes=2", "--output=/tmp/both")
	c.jobIs(job, "COMPLETED")
	if out := hosts(c.must("", c.beside(c.batchHost(job), "cat", "/tmp/both")...)); strings.Join(out, " ") != "cpu-0 cpu-1" {
		t.Errorf("the job ran on %q", out)
	}

	c.kubectl("annotate", "-n", c.namespace, "pod/cpu-1", v1beta1.AnnotationPodCordon+"=true")
	c.until("cpu-1 is drained by the operator", func(ctx context.Context) error {
		out, err := c.run(ctx, "", c.command("scontrol", "show", "node", "cpu-1", "--oneliner")...)
		if err == nil && (!strings.Contains(field(out, "State"), "DRAIN") || !strings.Contains(out, "Reason=slurm-operator: ")) {
			err = fmt.Errorf("scontrol says %s", out)
		}
		return err
	})
	c.kubectl("annotate", "-n", c.namespace, "pod/cpu-1", v1beta1.AnnotationPodCordon+"-")
	c.nodesAre("idle", "cpu-0", "cpu-1")

	job = c.submit("#!/bin/bash\nuntil [ -e /tmp/end ]; do sleep 1; done\n", "--nodes=2", "--output=/dev/null")
	c.jobIs(job, "RUNNING")
	c.kubectl("annotate", "-n", c.namespace, "pod/cpu-1", v1beta1.AnnotationPodDeletionCost+"=-1")
	c.kubectl("scale", "-n", c.namespace, "nss/cpu", "--replicas=1")
	c.wait("pod/cpu-1", "condition="+v1beta1.PodConditionPrefix+"Drain")
	c.must("", c.beside(c.batchHost(job), "touch", "/tmp/end")...)
	c.wait("pod/cpu-1", "delete")
	c.jobIs(job, "COMPLETED")
	c.nodesAre("idle", "cpu-0")
}

// machine is the name and the address of one of the box's machines.
func (b *box) machine() (name, address string) {
	b.t.Helper()
	var nodes corev1.NodeList
	b.get(&nodes, "nodes")
	for i := range nodes.Items {
		for _, a := range nodes.Items[i].Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				name, address = nodes.Items[i].Name, a.Address
			}
		}
	}
	if name == "" {
		b.t.Fatal("no node of the box has an address")
	}
	return name, address
}
