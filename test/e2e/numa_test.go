package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const (
	// numaVariable names the box of the stage numa, which has an emulated machine.
	numaVariable = "SLINKY_TEST_NUMA"
	emulated     = "emulated"
	// numaPatience is for the first pod of a machine without KVM, which takes ten times as long for everything. How long that
	// takes tells how much the others get.
	numaPatience = 10 * time.Minute
	// slowest is how much longer than the first pod one thing may take: a worker of Slurm, the driver, five pods at once.
	slowest = 20
)

// On a machine with 8 CPUs in 2 NUMA nodes, 2 sockets and pairs of threads, with cgroup v2: claims get CPUs and memory of one NUMA
// node, exact sets are exact, restarts of the driver, kubelet and containerd move nobody, and slurmd's jobs have cores of their own.
func TestNUMAMachine(t *testing.T) {
	c := numaNode{cpus{openBy(t, numaVariable, "e2e-numa", numaPatience)}, time.Now()}
	c.worker()
	c.apply(c.manifest("machine", "", "hostPID: true", "securityContext: {privileged: true}"))
	c.wait("pod/machine", "condition=Ready")
	c.patience = max(slowest*time.Since(c.began), patience)
	t.Logf("the first pod was ready after %s, so all else has %s", time.Since(c.began).Round(time.Second), c.patience.Round(time.Second))
	c.chart(emulated, "memoryNodes: local", "slurmJobs: exclusive", "selfManaged: [slurm/app.kubernetes.io/name=slurmd]")
	c.slices("0-3", "4-7")

	c.apply(claimTemplate("far", 3, 1, ""))
	c.apply(claimTemplate("exact", 2, 0, "0,2"))
	for _, name := range []string{"far", "exact"} {
		c.apply(c.manifest(name, name))
	}
	c.apply(c.manifest("shared", ""))
	for _, name := range []string{"far", "exact", "shared"} {
		c.wait("pod/"+name, "condition=Ready")
	}
	var far cpuset.Set
	// The runtime waits two seconds for a plugin. On a machine as slow as this one it may go on without, and the driver then sets right what runs.
	c.until("the claim of 3 CPUs of NUMA node 1 has them", func(context.Context) error {
		has := c.sets("far")["far"]
		if far = has.cpus; far.Len() != 3 || !far.Within(parsed(t, "4-7")) || has.mems.String() != "1" {
			return fmt.Errorf("it has %s", has)
		}
		return nil
	})
	exact := parsed(t, "0,2")
	rest := parsed(t, "0-7").Minus(far).Minus(exact)
	c.until("the exact claim has its CPUs", func(context.Context) error {
		if has := c.sets("exact")["exact"]; has.cpus.String() != "0,2" || has.mems.String() != "0" {
			return fmt.Errorf("it has %s", has)
		}
		return nil
	})
	c.have("at first", map[string][2]string{"far": {far.String(), "1"}, "exact": {"0,2", "0"}, "shared": {rest.String(), "0-1"}})

	c.hotplug(far, exact, rest)

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
		if has := c.sets("late")["late"]; !has.cpus.Equal(last) {
			return fmt.Errorf("it has %s, want %s", has.cpus, last)
		}
		return nil
	})
	c.have("after all restarts", map[string][2]string{"late": {last.String(), "1"}, "shared": {"1,3", "0-1"}})
	c.kubectl("delete", "pod", "-n", c.namespace, "far", "late", "exact", "--wait")
	c.have("when the claims are gone", map[string][2]string{"shared": {"0-7", "0-1"}})
	c.besideSlurm()
	c.hugePages()
}

type numaNode struct {
	cpus
	began time.Time
}

// slices waits until there is a device for each NUMA node, with these CPUs.
func (c numaNode) slices(nodes ...string) {
	c.t.Helper()
	want := ""
	for i, list := range nodes {
		want += fmt.Sprintf("cpudevnuma%03d %s %d %[3]d\n", i, list, i)
	}
	c.until("the driver's slice is there", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+emulated, "-o",
			`jsonpath={range .items[*].spec.devices[*]}{.name} {.attributes.dra\.cpu/cpuIDs.string} {.attributes.dra\.cpu/socketID.int} `+
				`{.attributes.resource\.kubernetes\.io/numaNode.int}{"\n"}{end}`)
		if err == nil && out != want {
			err = fmt.Errorf("it says %q, want %q", out, want)
		}
		return err
	})
}

// hotplug: a CPU of a claim and one that all share go offline and come back. The devices follow; the claims stay what they are.
func (c numaNode) hotplug(far, exact, rest cpuset.Set) {
	c.t.Helper()
	one, all := cpuset.Of(far.List()[far.Len()-1]), parsed(c.t, "0-7")
	gone := one.Union(cpuset.Of(rest.First()))
	turn := func(to string) {
		c.t.Helper()
		script := ""
		for id := range gone.All() {
			script += fmt.Sprintf("echo %s >/sys/devices/system/cpu/cpu%d/online\n", to, id)
		}
		c.must("", c.inside("sh", "-ec", script)...)
	}
	turn("0")
	left := all.Minus(gone)
	c.slices(left.Intersect(parsed(c.t, "0-3")).String(), left.Intersect(parsed(c.t, "4-7")).String())
	c.have("without CPUs "+gone.String(), map[string][2]string{
		"far": {far.Minus(gone).String(), "1"}, "exact": {exact.String(), "0"}, "shared": {rest.Minus(gone).String(), "0-1"}})
	turn("1")
	c.slices("0-3", "4-7")
	c.have("with all CPUs again", map[string][2]string{"far": {far.String(), "1"}, "exact": {exact.String(), "0"}, "shared": {rest.String(), "0-1"}})
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

// confined is what a container has, as its cgroup says.
type confined struct{ cpus, mems cpuset.Set }

func (c confined) String() string { return fmt.Sprintf("CPUs %s and memory of %s", c.cpus, c.mems) }

// readSets is a shell's program that prints what the containers have of whose IDs are its arguments.
const readSets = `for id; do
  for at in /sys/fs/cgroup/kubepods/*/$id /sys/fs/cgroup/kubepods/*/*/$id; do
    [ -d $at ] && read -r cpus <$at/cpuset.cpus.effective && read -r mems <$at/cpuset.mems.effective && echo $id $cpus $mems
  done
done`

// sets reads what containers have, all at once: a command in a container takes seconds there.
func (c numaNode) sets(names ...string) map[string]confined {
	c.t.Helper()
	var out map[string]confined
	c.until("the cgroups of "+strings.Join(names, ", ")+" can be read", func(ctx context.Context) error {
		text, err := c.run(ctx, "", "kubectl", "get", "pods", "-n", c.namespace, "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID}{"\n"}{end}`)
		if err != nil {
			return err
		}
		command, nameOf := c.inside("sh", "-c", readSets, "sh"), map[string]string{}
		for line := range strings.Lines(text) {
			name, id, _ := strings.Cut(strings.TrimSpace(line), " containerd://")
			if slices.Contains(names, name) {
				command, nameOf[id] = append(command, id), name
			}
		}
		text, err = c.run(ctx, "", command...)
		if err != nil {
			return err // kubelet or the runtime is being started
		}
		out = map[string]confined{}
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) != 3 {
				return fmt.Errorf("it says %q", text)
			}
			out[nameOf[f[0]]] = confined{parsed(c.t, f[1]), parsed(c.t, f[2])}
		}
		if len(out) != len(names) {
			return fmt.Errorf("of %d containers it says %q", len(names), text)
		}
		return nil
	})
	return out
}

// inside is a command on the machine, beside its containers.
func (c numaNode) inside(command ...string) []string {
	return append([]string{"kubectl", "exec", "-n", c.namespace, "machine", "--", "nsenter", "--target=1", "--mount", "--pid"}, command...)
}

// have waits until the containers have these CPUs and NUMA nodes. Those with a claim must have them at once and for ever.
func (c numaNode) have(when string, want map[string][2]string) {
	c.t.Helper()
	c.until("the containers have their CPUs "+when, func(context.Context) error {
		has := c.sets(slices.Sorted(maps.Keys(want))...)
		var wrong error
		for name, w := range want {
			if has[name].cpus.String() == w[0] && has[name].mems.String() == w[1] {
				continue
			}
			err := fmt.Errorf("%s has %s, want %s and %s", name, has[name], w[0], w[1])
			if name != "shared" {
				c.t.Fatalf("%s: %v", when, err)
			}
			wrong = err
		}
		return wrong
	})
	c.t.Logf("%s after %s", when, time.Since(c.began).Round(time.Second))
}

// kill ends a daemon of the machine, and waits for its next run and for the driver.
func (c numaNode) kill(daemon string) {
	c.t.Helper()
	pid := func(ctx context.Context) (string, error) {
		out, err := c.run(ctx, "", c.inside("pgrep", "--full", "^"+daemon)...)
		return strings.TrimSpace(out), err
	}
	before, err := pid(c.t.Context())
	if err != nil {
		c.t.Fatalf("find %s: %v", daemon, err)
	}
	// The answer may be lost with what carries it.
	_, _ = c.run(c.t.Context(), "", c.inside(append([]string{"kill"}, strings.Fields(before)...)...)...)
	c.until(daemon+" runs again", func(ctx context.Context) error {
		now, err := pid(ctx)
		if err == nil && now == before {
			err = fmt.Errorf("it still runs as %s", now)
		}
		return err
	})
	c.kubectl("rollout", "status", "-n", c.namespace, "daemonset/dra-driver-cpu", "--timeout="+c.patience.String())
}

// worker has a slurmd started on the machine, with cgroup v2. It is there through all that comes before its jobs.
func (c numaNode) worker() {
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
}

// besideSlurm: cores of slurmd's jobs leave the shared pool, and no claim gets them.
func (c numaNode) besideSlurm() {
	c.t.Helper()
	c.until("the worker is idle", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "slurm", "sinfo", "--noheader", "--partition=numa", "--format=%T %X:%Y:%Z")
		if err == nil && strings.TrimSpace(out) != "idle 2:2:2" {
			err = fmt.Errorf("sinfo says %q, want it idle, with 2 sockets of 2 cores of 2 threads", strings.TrimSpace(out))
		}
		return err
	})
	script := "#!/bin/bash\ngrep Cpus_allowed_list /proc/self/status\nsleep infinity\n"
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
		if beside = c.sets("beside")["beside"].cpus; beside.Len() != 2 || beside.Overlaps(cores) {
			return fmt.Errorf("the job has CPUs %s, and the pod %s", cores, beside)
		}
		return nil
	})
	c.slurm("", "scancel", job)
	c.have("after the job", map[string][2]string{"shared": {all.Minus(beside).String(), "0-1"}})
}
