package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const (
	// numaVariable names the box of the stage numa, which has an emulated machine.
	numaVariable = "SLINKY_TEST_NUMA"
	emulated     = "emulated"
	// numaPatience is for a machine without KVM, which takes ten times as long for everything.
	numaPatience = 10 * time.Minute
)

// On a machine with 8 CPUs in 2 NUMA nodes, 2 sockets and pairs of threads, with cgroup v2: claims get CPUs and memory of one NUMA
// node, exact sets are exact, restarts of the driver, kubelet and containerd move nobody, and slurmd's jobs have cores of their own.
func TestNUMAMachine(t *testing.T) {
	c := numaNode{cpus{openBy(t, numaVariable, "e2e-numa", numaPatience)}}
	c.apply(c.manifest("machine", "", "hostPID: true", "securityContext: {privileged: true}"))
	c.chart(emulated, "memoryNodes: local", "slurmJobs: exclusive", "selfManaged: [slurm/app.kubernetes.io/name=slurmd]")
	c.slices()

	c.apply(claimTemplate("far", 3, 1, ""))
	c.apply(claimTemplate("exact", 2, 0, "0,2"))
	for _, name := range []string{"far", "exact"} {
		c.apply(c.manifest(name, name))
	}
	c.apply(c.manifest("shared", ""))
	for _, name := range []string{"machine", "far", "exact", "shared"} {
		c.wait("pod/"+name, "condition=Ready")
	}
	var far cpuset.Set
	// The runtime waits two seconds for a plugin. On a machine as slow as this one it may go on without, and the driver then sets right what runs.
	c.until("the claim of 3 CPUs of NUMA node 1 has them", func(context.Context) error {
		cpus, mems := c.sets("far")
		if far = cpus; far.Len() != 3 || !far.Within(parsed(t, "4-7")) || mems.String() != "1" {
			return fmt.Errorf("it has CPUs %s and memory of %s", far, mems)
		}
		return nil
	})
	exact := parsed(t, "0,2")
	rest := parsed(t, "0-7").Minus(far).Minus(exact)
	c.until("the exact claim has its CPUs", func(context.Context) error {
		if cpus, mems := c.sets("exact"); cpus.String() != "0,2" || mems.String() != "0" {
			return fmt.Errorf("it has CPUs %s and memory of %s", cpus, mems)
		}
		return nil
	})
	c.have("at first", map[string][2]string{"far": {far.String(), "1"}, "exact": {"0,2", "0"}, "shared": {rest.String(), "0-1"}})

	c.restart()
	c.have("after a restart of the driver", map[string][2]string{"far": {far.String(), "1"}, "exact": {"0,2", "0"}, "shared": {rest.String(), "0-1"}})
	for _, daemon := range []string{"containerd", "/usr/local/bin/kube kubelet"} {
		c.kill(daemon)
		c.have("after a restart of "+daemon, map[string][2]string{"far": {far.String(), "1"}, "exact": {"0,2", "0"}, "shared": {rest.String(), "0-1"}})
	}

	// All of it still works: the last CPU of the node is given away, and what is given back is shared again.
	c.apply(claimTemplate("late", 1, 1, ""))
	c.apply(c.manifest("late", "late"))
	c.wait("pod/late", "condition=Ready")
	last := parsed(t, "4-7").Minus(far)
	c.until("the late claim has its CPU", func(context.Context) error {
		if cpus, _ := c.sets("late"); !cpus.Equal(last) {
			return fmt.Errorf("it has %s, want %s", cpus, last)
		}
		return nil
	})
	c.have("after all restarts", map[string][2]string{"late": {last.String(), "1"}, "shared": {"1,3", "0-1"}})
	c.kubectl("delete", "pod", "-n", c.namespace, "far", "late", "exact", "--wait")
	c.have("when the claims are gone", map[string][2]string{"shared": {"0-7", "0-1"}})
	c.besideSlurm()
}

type numaNode struct{ cpus }

// slices: one device for each NUMA node.
func (c numaNode) slices() {
	c.t.Helper()
	const want = "cpudevnuma000 0-3 0 0\ncpudevnuma001 4-7 1 1\n"
	c.until("the driver's slice is there", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+emulated, "-o",
			`jsonpath={range .items[*].spec.devices[*]}{.name} {.attributes.dra\.cpu/cpuIDs.string} {.attributes.dra\.cpu/socketID.int} `+
				`{.attributes.resource\.kubernetes\.io/numaNode.int}{"\n"}{end}`)
		if err == nil && out != want {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

func claimTemplate(name string, n, numa int, exact string) string {
	config := ""
	if exact != "" {
		config = fmt.Sprintf("config: [{opaque: {driver: dra.cpu, parameters: {apiVersion: v1alpha1, cpuConfig: {cpuset: %q}}}}]", exact)
	}
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s}
spec:
  spec:
    devices:
      requests:
      - name: cpu
        exactly:
          deviceClassName: dra.cpu
          capacity: {requests: {dra.cpu/cpu: "%d"}}
          selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].numaNode == %d'}}]
      %s
`, name, n, numa, config)
}

// manifest is a pod on the machine, with a claim of the template of that name; more are lines of the pod and of its container.
func (c numaNode) manifest(name, template string, more ...string) string {
	claims, use, pod, container := "", "", "", ""
	if template != "" {
		claims, use = "resourceClaims: [{name: cpu, resourceClaimTemplateName: "+template+"}]", "resources: {claims: [{name: cpu}]}"
	}
	if len(more) == 2 {
		pod, container = more[0], more[1]
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: numa}}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  tolerations: [{key: slinky.box/emulated, operator: Exists}]
  terminationGracePeriodSeconds: 0
  %s
  %s
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    command: ["sleep", "infinity"]
    %s
    %s
`, name, emulated, pod, claims, image, use, container)
}

func parsed(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(strings.TrimSpace(list))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sets are a container's CPUs and NUMA nodes, as its cgroup has them.
func (c numaNode) sets(name string) (cpus, mems cpuset.Set) {
	c.t.Helper()
	c.until("the cgroup of "+name+" can be read", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "exec", "-n", c.namespace, name, "--", "cat", "/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset.mems.effective")
		if err != nil {
			return err // kubelet or the runtime is being started
		}
		lines := strings.Fields(out)
		if len(lines) != 2 {
			return fmt.Errorf("it says %q", out)
		}
		cpus, mems = parsed(c.t, lines[0]), parsed(c.t, lines[1])
		return nil
	})
	return cpus, mems
}

// have waits until the containers have these CPUs and NUMA nodes. Those with a claim must have them at once and for ever.
func (c numaNode) have(when string, want map[string][2]string) {
	c.t.Helper()
	for name, w := range want {
		c.until(name+" "+when, func(context.Context) error {
			cpus, mems := c.sets(name)
			if cpus.String() == w[0] && mems.String() == w[1] {
				return nil
			}
			err := fmt.Errorf("it has CPUs %s and memory of %s, want %s and %s", cpus, mems, w[0], w[1])
			if name != "shared" {
				c.t.Fatalf("%s %s: %v", name, when, err)
			}
			return err
		})
	}
}

// kill ends a daemon of the machine, and waits for its next run and for the driver.
func (c numaNode) kill(daemon string) {
	c.t.Helper()
	inside := []string{"kubectl", "exec", "-n", c.namespace, "machine", "--", "nsenter", "--target=1", "--mount", "--pid", "pgrep", "--full", "^" + daemon}
	pid := func(ctx context.Context) (string, error) {
		out, err := c.run(ctx, "", inside...)
		return strings.TrimSpace(out), err
	}
	before, err := pid(c.t.Context())
	if err != nil {
		c.t.Fatalf("find %s: %v", daemon, err)
	}
	// The answer may be lost with what carries it.
	_, _ = c.run(c.t.Context(), "", append(inside[:len(inside)-3:len(inside)-3], append([]string{"kill"}, strings.Fields(before)...)...)...)
	c.until(daemon+" runs again", func(ctx context.Context) error {
		now, err := pid(ctx)
		if err == nil && now == before {
			err = fmt.Errorf("it still runs as %s", now)
		}
		return err
	})
	c.kubectl("rollout", "status", "-n", c.namespace, "daemonset/dra-driver-cpu", "--timeout="+c.patience.String())
}

// besideSlurm: slurmd on the machine, with cgroup v2. Cores of its jobs leave the shared pool, and no claim gets them.
func (c numaNode) besideSlurm() {
	c.t.Helper()
	set := fmt.Sprintf(`
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: numa, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  partition: {enabled: true, config: State=UP}
  template:
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      tolerations: [{key: slinky.box/emulated, operator: Exists}]
`, emulated)
	c.must(set, "kubectl", "apply", "-f", "-")
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience)
		defer cancel()
		if _, err := c.run(ctx, "", "kubectl", "delete", "nodeset", "-n", "slurm", "numa", "--wait"); err != nil {
			c.t.Error(err)
		}
	})
	c.until("the worker is idle", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "slurm", "sinfo", "--noheader", "--partition=numa", "--format=%T %X:%Y:%Z")
		if err == nil && strings.TrimSpace(out) != "idle 2:2:2" {
			err = fmt.Errorf("sinfo says %q, want it idle, with 2 sockets of 2 cores of 2 threads", strings.TrimSpace(out))
		}
		return err
	})
	script := "#!/bin/bash\ngrep Cpus_allowed_list /proc/self/status\nsleep 600\n"
	job := strings.TrimSpace(c.slurm(script, "sbatch", "--parsable", "--partition=numa", "--ntasks=1", "--cpus-per-task=2", "--mem=50", "--chdir=/tmp", "--output=/tmp/numa"))
	c.jobState(job, "RUNNING")
	var cores cpuset.Set
	c.until("the job has written its CPUs", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "exec", "-n", "slurm", "numa-0", "-c", "slurmd", "--", "cat", "/tmp/numa")
		_, list, found := strings.Cut(out, "Cpus_allowed_list:")
		if err == nil && !found {
			err = fmt.Errorf("only %q yet", out)
		}
		if err == nil {
			cores = parsed(c.t, list)
		}
		return err
	})
	all := parsed(c.t, "0-7")
	if cores.Len() != 2 {
		c.t.Errorf("the job has CPUs %s", cores)
	}
	c.have("beside a job of Slurm", map[string][2]string{"shared": {all.Minus(cores).String(), "0-1"}})
	numa := 0
	if cores.Within(parsed(c.t, "4-7")) {
		numa = 1
	}
	c.apply(claimTemplate("beside", 2, numa, ""))
	c.apply(c.manifest("beside", "beside"))
	c.wait("pod/beside", "condition=Ready")
	var beside cpuset.Set
	c.until("the pod has two other CPUs", func(context.Context) error {
		if beside, _ = c.sets("beside"); beside.Len() != 2 || beside.Overlaps(cores) {
			return fmt.Errorf("the job has CPUs %s, and the pod %s", cores, beside)
		}
		return nil
	})
	c.slurm("", "scancel", job)
	c.have("after the job", map[string][2]string{"shared": {all.Minus(beside).String(), "0-1"}})
}
