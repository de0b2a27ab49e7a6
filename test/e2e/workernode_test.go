package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// shape is a cluster whose workers have limits, devices and a place in the topology.
const shape = `
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data:
  cgroup.conf: |
    CgroupPlugin=autodetect
    IgnoreSystemd=yes
    ConstrainCores=yes
    ConstrainRAMSpace=yes
  gres.conf: |
    AutoDetect=off
    Name=gpu File=/dev/null
  topology.yaml: |
    ---
    - topology: tree
      cluster_default: true
      tree:
        switches:
          - {switch: top, children: "s1,s2"}
          - switch: s1
          - switch: s2
    - topology: block
      cluster_default: false
      block:
        block_sizes: [1]
        blocks:
          - block: b1
          - block: b2
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm}
spec:
  slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
  jwtKeyRef: {name: slurm-auth-jwt, key: jwt.key}
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}
  configFileRefs: [{name: files}]
  slurmctld: {resources: {requests: {cpu: 20m}}}
  template: {spec: {terminationGracePeriodSeconds: 5, tolerations: [{key: slinky.slurm.net/managed-node, operator: Exists}]}}
  extraConf: |
    SelectType=select/cons_tres
    SelectTypeParameters=CR_Core_Memory
    DefMemPerCPU=50
    ProctrackType=proctrack/cgroup
    TaskPlugin=task/cgroup,task/affinity
    GresTypes=gpu
    SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_continue
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm}
spec:
  controllerRef: {name: slurm}
  slurmrestd: {resources: {requests: {cpu: 20m}}}
  template: {spec: {tolerations: [{key: slinky.slurm.net/managed-node, operator: Exists}]}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: small}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  partition: {enabled: true, config: "Default=YES"}
  extraConf: Weight=7 Gres=gpu:1
  slurmd:
    env: [{name: POD_MEMORY_RESERVED, value: "40"}]
    resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {cpu: 500m, memory: 300Mi}}
  template:
    metadata: {annotations: {topology.slinky.slurm.net/spec: "tree:s1,block:b1"}}
    spec: {terminationGracePeriodSeconds: 5, tolerations: [{key: slinky.slurm.net/managed-node, operator: Exists}]}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: wrong}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  extraConf: Gres=gpu:2
  slurmd: {resources: {requests: {cpu: 20m, memory: 64Mi}}}
  template: {spec: {terminationGracePeriodSeconds: 5, tolerations: [{key: slinky.slurm.net/managed-node, operator: Exists}]}}
`

func TestWorkersShapeAndState(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-worker-shape")
	c := b.cluster(shape)
	c.node("small-0", "is idle", func(n string) bool { return field(n, "State") == "IDLE+DYNAMIC_NORM" })

	t.Run("limits, devices, topology and features at the first registration", func(t *testing.T) { testShape(t, c) })
	t.Run("a job that eats its memory is killed, and slurmd lives", func(t *testing.T) { testMemory(t, c) })
	t.Run("a wrong GRES is told on the NodeSet", func(t *testing.T) {
		c.on(t).wait("nodeset/wrong", `jsonpath={.status.conditions[?(@.reason=="InvalidRegistration")].status}=True`)
		message := c.kubectl("get", "-n", c.namespace, "nodeset/wrong", "-o", `jsonpath={.status.conditions[?(@.type=="Degraded")].message}`)
		if !strings.Contains(message, "gres/gpu count reported lower than configured (1 < 2)") {
			t.Errorf("the NodeSet says %q", message)
		}
		c.on(t).wait("pod/wrong-0", "condition="+v1beta1.PodConditionInvalidReg)
	})
	t.Run("check 34: pod-cordon is honoured until removed", func(t *testing.T) {
		c := c.on(t)
		c.annotate("pod/small-0", v1beta1.AnnotationPodCordon+"=true")
		c.wait("pod/small-0", "condition="+v1beta1.ConditionSlurmDrained)
		c.node("small-0", "is drained by the annotation", func(n string) bool {
			return strings.Contains(n, "Reason=slurm-operator: pod e2e-worker-shape/small-0 has the annotation")
		})
		c.annotate("pod/small-0", v1beta1.AnnotationPodCordon+"-")
		c.without("small-0", v1beta1.ConditionSlurmDrained)
	})
	t.Run("checks 33 and 47: an administrator's drain is shown, and never touched", func(t *testing.T) { testAdminDrain(t, c.on(t)) })
}

// on lets a subtest fail by itself.
func (c *cluster) on(t *testing.T) *cluster {
	b := *c.box
	b.t = t
	return &cluster{&b}
}

func (c *cluster) annotate(what, annotation string) {
	c.t.Helper()
	c.kubectl("annotate", "-n", c.namespace, "--overwrite", what, annotation)
}

// pod waits until a pod is as it should be.
func (c *cluster) pod(name, what string, ok func(*corev1.Pod) bool) {
	c.t.Helper()
	c.until("pod "+name+" "+what, func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "pod", "-n", c.namespace, name, "-o", "json")
		var p corev1.Pod
		if err == nil {
			err = json.Unmarshal([]byte(out), &p)
		}
		if err == nil && !ok(&p) {
			err = fmt.Errorf("it is %+v, %+v", p.ObjectMeta, p.Status.Conditions)
		}
		return err
	})
}

// without waits until a pod doesn't have a condition, for which kubectl has no way to wait.
func (c *cluster) without(pod, condition string) {
	c.t.Helper()
	c.pod(pod, "has no condition "+condition, func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(p.Status.Conditions, func(have corev1.PodCondition) bool { return string(have.Type) == condition })
	})
}

// node waits until what scontrol shows of a node is as it should be, and returns it.
func (c *cluster) node(name, what string, ok func(string) bool) string {
	c.t.Helper()
	var out string
	c.until("Slurm node "+name+" "+what, func(ctx context.Context) (err error) {
		out, err = c.run(ctx, "", c.command("scontrol", "show", "node", name)...)
		if err == nil && !ok(out) {
			err = fmt.Errorf("scontrol shows\n%s", out)
		}
		return err
	})
	return out
}

func testShape(t *testing.T, c *cluster) {
	n := c.on(t).node("small-0", "has its topology", func(n string) bool { return field(n, "Topology") != "" })
	memory, err := strconv.Atoi(field(n, "RealMemory"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"CPUEfctv": "1", "MemSpecLimit": strconv.Itoa(memory - 260), "Gres": "gpu:1", "Topology": "tree:s1,block:b1",
		"ActiveFeatures": "small", "Weight": "7",
	} {
		if got := field(n, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if cpus, err := strconv.Atoi(field(n, "CPUTot")); err != nil || cpus < 1 || cpus > 1 && field(n, "CoreSpecCount") != strconv.Itoa(cpus-1) {
		t.Errorf("of %s CPUs %s cores are kept from jobs", field(n, "CPUTot"), field(n, "CoreSpecCount"))
	}
	out, err := c.run(t.Context(), "", c.command("srun", "--immediate=1", "--mem=261M", "true")...)
	if err == nil {
		t.Errorf("a job got more memory than there is: %s", out)
	}
	if got := strings.TrimSpace(c.on(t).slurm("", "srun", "--mem=260M", "--gres=gpu:1", "nproc")); got != "1" {
		t.Errorf("a job with all memory sees %s CPUs, want 1", got)
	}
}

func testMemory(t *testing.T, c *cluster) {
	c = c.on(t)
	job := c.submit("#!/bin/sh\nexec tail /dev/zero\n", "--mem=200M", "--output=/dev/null")
	c.jobIs(job, "OUT_OF_MEMORY")
	var pod corev1.Pod
	c.get(&pod, "pod", "small-0")
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount != 0 || !s.Ready {
			t.Errorf("container %s was started again %d times; ready: %v", s.Name, s.RestartCount, s.Ready)
		}
	}
	if got := strings.TrimSpace(c.slurm("", "srun", "hostname")); got != "small-0" {
		t.Errorf("the next job says %q", got)
	}
}

func testAdminDrain(t *testing.T, c *cluster) {
	c.slurm("", "scontrol", "update", "nodename=small-0", "state=drain", "reason=bad disk")
	c.wait("pod/small-0", "condition="+v1beta1.PodConditionDrain)
	var pod corev1.Pod
	c.get(&pod, "pod", "small-0")
	i := slices.IndexFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool { return p.Type == v1beta1.PodConditionDrain })
	if i < 0 || pod.Status.Conditions[i].Message != "bad disk" || pod.Status.Conditions[i].Reason != v1beta1.ReasonSetInSlurm {
		t.Errorf("conditions are %+v", pod.Status.Conditions)
	}
	c.until("an event tells who did it", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "events", "-n", c.namespace, "--field-selector", "reason="+v1beta1.EventSlurmNodeDrained, "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, "Slurm node small-0 was drained in Slurm by") {
			err = fmt.Errorf("events say %q", out)
		}
		return err
	})
	// Neither a cause of ours that comes and goes nor a new pod lifts it, or takes its reason.
	c.annotate("pod/small-0", v1beta1.AnnotationPodCordon+"=true")
	c.annotate("pod/small-0", v1beta1.AnnotationPodCordon+"-")
	c.kubectl("delete", "-n", c.namespace, "pod/small-0", "--wait")
	c.wait("pod/small-0", "create")
	c.wait("pod/small-0", "condition=Ready")
	c.wait("pod/small-0", "condition="+v1beta1.PodConditionDrain)
	n := c.slurm("", "scontrol", "show", "node", "small-0")
	if !strings.Contains(field(n, "State"), "DRAIN") || !strings.Contains(n, "Reason=bad disk [") {
		t.Errorf("the drain is gone:\n%s", n)
	}
	c.slurm("", "scontrol", "update", "nodename=small-0", "state=resume")
	c.wait("pod/small-0", "condition="+v1beta1.PodConditionIdle)
	c.without("small-0", v1beta1.PodConditionDrain)
}

// TestCordonAndDrainOfAKubernetesNode is about the box's own cluster, and runs while no other
// story does: it takes one of the box's nodes out of service.
func TestCordonAndDrainOfAKubernetesNode(t *testing.T) {
	b := open(t, "e2e-cordon")
	idle := twoIdle(b)
	b.namespace = "slurm"
	t.Cleanup(func() { b.namespace = "e2e-cordon" }) // what is removed in the end
	c := &cluster{box: b}
	worker := idle[0]
	var pod corev1.Pod
	b.get(&pod, "pod", worker)
	node := pod.Spec.NodeName
	t.Cleanup(func() { b.uncordon(node) })

	t.Run("check 32: a cordon drains with its reason", func(t *testing.T) {
		c := c.on(t)
		c.kubectl("annotate", "node", node, v1beta1.AnnotationNodeCordonReason+"=bad DIMM")
		c.kubectl("cordon", node)
		c.wait("pod/"+worker, "condition="+v1beta1.ConditionSlurmDrained)
		if n := c.slurm("", "scontrol", "show", "node", worker); !strings.Contains(n, "Reason=slurm-operator: bad DIMM [") {
			t.Errorf("Slurm doesn't say why:\n%s", n)
		}
		c.kubectl("uncordon", node)
		c.without(worker, v1beta1.ConditionSlurmDrained)
		c.nodeIdle(worker)
	})
	t.Run("checks 48 and 51: a busy worker isn't evicted, an idle one is, and comes back", func(t *testing.T) {
		c := c.on(t)
		job := c.submit("#!/bin/sh\nsleep 600\n", "--nodelist="+worker, "--output=/dev/null")
		c.jobIs(job, "RUNNING")
		c.pod(worker, "is protected", func(p *corev1.Pod) bool { return p.Labels[v1beta1.LabelNodeSetPodProtect] == "true" })
		drain := []string{"kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=nodeset.slinky.slurm.net/pod-name=" + worker}
		_, err := c.run(t.Context(), "", append(drain, "--timeout=3s")...)
		if err == nil || !strings.Contains(err.Error(), "disruption budget") {
			t.Errorf("the eviction of a busy worker gave %v", err)
		}
		c.jobIs(job, "RUNNING")
		c.slurm("", "scancel", job)
		c.must("", append(drain, "--timeout=2m")...)
		c.kubectl("uncordon", node)
		c.wait("pod/"+worker, "create")
		c.wait("pod/"+worker, "condition=Ready")
		c.wait("pod/"+worker, "condition="+v1beta1.PodConditionIdle)
		c.nodeIdle(worker)
	})
}

func (b *box) uncordon(node string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, args := range [][]string{{"kubectl", "uncordon", node}, {"kubectl", "annotate", "node", node, v1beta1.AnnotationNodeCordonReason + "-"}} {
		if _, err := b.run(ctx, "", args...); err != nil {
			b.t.Errorf("put node %s back: %v", node, err)
		}
	}
}

// nodeIdle waits until a node is idle, with no drain and no reason left.
func (c *cluster) nodeIdle(name string) {
	c.t.Helper()
	c.node(name, "is idle", func(n string) bool {
		return field(n, "State") == "IDLE+DYNAMIC_NORM" && !strings.Contains(n, "Reason=")
	})
}
