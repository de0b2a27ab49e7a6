package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// driverNode keeps the cluster's own pods; the bridge has the others.
const driverNode = "node-1"

// watchCPUs is a container's program: it writes down when its own CPUs are others than before.
const watchCPUs = `
while :; do
  while read -r name value; do [ "$name" = Cpus_allowed_list: ] && now=$value; done </proc/self/status
  [ "$now" = "$last" ] || echo "$EPOCHREALTIME $now"
  last=$now
  sleep 0.05
done`

// cpus is the story's box with the CPU driver on one node.
type cpus struct{ *box }

// Two CPUs, and containers that come and go: at no time does a shared container run on
// the CPU of a pinned one, whatever becomes of the driver.
// CPU checks 12, 19, 22, 33 and 35.
func TestExclusiveCPUs(t *testing.T) {
	// Not beside other stories: it takes a CPU of the node from their containers.
	c := cpus{open(t, "e2e-cpus")}
	programs := buildCounters(t)
	c.install(driverNode, "minSharedCPUs: 1", "cpuView: all", "memoryDevices: numanode")
	c.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-cpu}
spec:
  spec:
    devices:
      requests:
      - name: cpu
        exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "1"}}}
`)
	all := c.online()
	if all.Len() < 2 {
		t.Skipf("the node has one CPU (%s): nothing can be exclusive", all)
	}
	c.pod("shared", "")
	c.pod("first", "one-cpu")
	mine := c.now("first")
	if mine.Len() != 1 || c.now("shared").Overlaps(mine) {
		t.Errorf("the pinned container has %s, the shared one %s, the node %s", mine, c.now("shared"), all)
	}
	c.environment("first")
	small := programs()
	c.each("first", c.counts("first", small, false), 1)
	c.each("first", c.counts("first", small, true), 1)
	c.sees("shared", all.Minus(mine))
	c.gathers("first", "shared", mine)

	// All that the driver has written down is lost: kubelet and the running container tell of the claim.
	c.must("", "exec", driverNode, "bash", "-c", "rm /var/lib/kubelet/plugins/dra.cpu/checkpoint.json /var/run/cdi/dra.k8s.io-cpu_claim-*")
	c.restartWithAbsence(mine)
	c.pod("later", "")
	for name, want := range map[string]cpuset.Set{"first": mine, "shared": all.Minus(mine), "later": all.Minus(mine)} {
		if got := c.now(name); !got.Equal(want) {
			t.Errorf("after a restart of the driver %s has %s, want %s", name, got, want)
		}
	}
	c.gathers("first", "shared", mine)
	c.lastCPUIsKept(all)
	c.memory(all.Minus(mine))
	c.hugePages()

	var ends []span
	for _, name := range []string{"first", "exact"} {
		if name == "exact" {
			c.exact(mine)
			if got := c.now(name); !got.Equal(mine) {
				t.Errorf("the claim names %s and the container has %s", mine, got)
			}
		}
		ends = append(ends, c.end(name))
		c.sharedHave(all)
		c.sees("shared", all)
	}
	c.each("shared", c.counts("shared", small, false), all.Len())
	for _, name := range []string{"shared", "later"} {
		c.neverOn(name, ends)
	}
}

// install puts the driver on one node, with the chart and lines of its configuration.
func (c cpus) install(node string, config ...string) {
	c.t.Helper()
	c.must("", "load", imageArchive(c.box, "dra-cpu"))
	c.chart(node, config...)
}

// chart installs the driver, whose image is there.
func (c cpus) chart(node string, config ...string) {
	c.t.Helper()
	values := fmt.Sprintf("image: {tag: dev}\nnodeSelector: {kubernetes.io/hostname: %s}\ndriverConfig:\n  %s\n", node, strings.Join(config, "\n  "))
	c.must(values, "helm", "upgrade", "--install", "dra-driver-cpu", "../../charts/dra-driver-cpu", "--namespace", c.namespace,
		"--values", "-", "--wait", "--timeout="+c.patience.String())
	// The DeviceClass belongs to no namespace, so it doesn't go with the story's.
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience)
		defer cancel()
		if c.t.Failed() {
			out, _ := c.run(ctx, "", "kubectl", "logs", "-n", c.namespace, "daemonset/dra-driver-cpu", "--tail=200")
			c.t.Logf("the driver's log:\n%s", out)
		}
		if _, err := c.run(ctx, "", "helm", "uninstall", "dra-driver-cpu", "--namespace", c.namespace, "--wait", "--ignore-not-found"); err != nil {
			c.t.Error(err)
		}
	})
}

// device is what the driver offers: the node's one NUMA node, or the first of them.
func (c cpus) device() (name string, online cpuset.Set) {
	c.t.Helper()
	c.until("the driver's slice is there", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+driverNode, "-o",
			`jsonpath={range .items[*].spec.devices[*]}{.name} {.attributes.dra\.cpu/cpuIDs.string}{"\n"}{end}`)
		if err != nil {
			return err
		}
		f := strings.Fields(out)
		if len(f) < 2 {
			return fmt.Errorf("it says %q", out)
		}
		name = f[0]
		online, err = cpuset.Parse(f[1])
		return err
	})
	return name, online
}

func (c cpus) online() cpuset.Set {
	c.t.Helper()
	_, online := c.device()
	return online
}

// pod makes a pod that watches its CPUs; claim is the name of a template, or of a claim after "=".
func (c cpus) pod(name, claim string) {
	c.t.Helper()
	c.apply(podWith(name, claim))
	c.wait("pod/"+name, "condition=Ready")
}

func podWith(name, claim string) string {
	claims, use, place := "", "", "nodeSelector: {kubernetes.io/hostname: "+driverNode+"}"
	if claim != "" {
		source := "resourceClaimTemplateName: " + claim
		if exact, ok := strings.CutPrefix(claim, "="); ok {
			// Who allocates a claim also chooses the node.
			source, place = "resourceClaimName: "+exact, "nodeName: "+driverNode
		}
		claims, use = "resourceClaims: [{name: cpu, "+source+"}]", "resources: {claims: [{name: cpu}]}"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: cpus}}
spec:
  %s
  terminationGracePeriodSeconds: 0
  %s
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    env: [{name: BLIS_NUM_THREADS, value: "5"}]
    %s
    command: ["bash", "-c", %q]
`, name, place, claims, image, use, watchCPUs)
}

// now reads the CPUs of the container's first process.
func (c cpus) now(name string) cpuset.Set {
	c.t.Helper()
	out := c.kubectl("exec", "-n", c.namespace, name, "--", "grep", "Cpus_allowed_list", "/proc/1/status")
	s, err := cpuset.Parse(strings.TrimPrefix(out, "Cpus_allowed_list:"))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// environment: the program is told its CPUs, and what the pod says counts more.
func (c cpus) environment(name string) {
	c.t.Helper()
	env := strings.Fields(c.kubectl("exec", "-n", c.namespace, name, "--", "env"))
	list := c.now(name).String()
	for _, want := range []string{"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "GOMAXPROCS=1", "SLURM_CPUS_ON_NODE=1", "DRA_CPU_COUNT=1", "OMP_PLACES={" + list + "}", "DRA_CPUSET=" + list, "BLIS_NUM_THREADS=5"} {
		if !slices.Contains(env, want) {
			c.t.Errorf("the environment lacks %s: %v", want, env)
		}
	}
}

// restart ends the driver and waits for the next one.
func (c cpus) restart() {
	c.t.Helper()
	c.kubectl("rollout", "restart", "-n", c.namespace, "daemonset/dra-driver-cpu")
	c.kubectl("rollout", "status", "-n", c.namespace, "daemonset/dra-driver-cpu", "--timeout="+c.patience.String())
}

// lastCPUIsKept: a claim that would take the last shared CPU is refused with a sentence.
func (c cpus) lastCPUIsKept(all cpuset.Set) {
	c.t.Helper()
	if all.Len() != 2 {
		c.t.Logf("the node has CPUs %s; that the last one is kept is shown with two", all)
		return
	}
	c.apply(podWith("greedy", "one-cpu"))
	c.until("the pod's event says why", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "events", "-n", c.namespace, "--field-selector", "involvedObject.name=greedy", "-o",
			"jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, "would leave 0 for containers without a claim") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	c.kubectl("delete", "pod", "-n", c.namespace, "greedy", "--wait")
}

// exact writes a claim's allocation as a scheduler does, Slurm's bridge for one, with the CPUs that it has chosen.
func (c cpus) exact(want cpuset.Set) {
	c.t.Helper()
	device, _ := c.device()
	c.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: exact}
spec:
  devices:
    requests:
    - name: cpu
      exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "` + strconv.Itoa(want.Len()) + `"}}}
`)
	type object = map[string]any
	status, err := json.Marshal(object{"status": object{"allocation": object{
		"devices": object{
			"results": []any{object{"request": "cpu", "driver": "dra.cpu", "pool": driverNode, "device": device,
				"consumedCapacity": object{"dra.cpu/cpu": strconv.Itoa(want.Len())}, "shareID": "7a3f0e0a-1111-4222-8333-444455556666"}},
			"config": []any{object{"source": "FromClaim", "opaque": object{"driver": "dra.cpu",
				"parameters": object{"apiVersion": "v1alpha1", "cpuConfig": object{"cpuset": want.String()}}}}},
		},
		"nodeSelector": object{"nodeSelectorTerms": []any{object{"matchFields": []any{
			object{"key": "metadata.name", "operator": "In", "values": []string{driverNode}}}}}},
	}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("patch", "resourceclaim", "-n", c.namespace, "exact", "--subresource=status", "--type=merge", "--patch", string(status))
	c.pod("exact", "=exact")
}

// span is the time in which a pinned container ran on its CPUs.
type span struct {
	name     string
	cpus     cpuset.Set
	from, to float64
}

// sees waits until the kernel's own file says these CPUs in the container.
func (c cpus) sees(name string, want cpuset.Set) {
	c.t.Helper()
	c.until(name+" sees CPUs "+want.String(), func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "exec", "-n", c.namespace, name, "--", "cat", "/sys/devices/system/cpu/online")
		if got := strings.TrimSpace(out); err == nil && got != want.String() {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}

// end deletes a pinned pod, and says since when it had which CPUs.
func (c cpus) end(name string) span {
	c.t.Helper()
	seen := c.seen(name)
	s := span{name: name, cpus: seen[0].cpus, from: seen[0].at, to: float64(time.Now().UnixNano()) / 1e9}
	if len(seen) != 1 {
		c.t.Errorf("the pinned container %s had several sets of CPUs: %v", name, seen)
	}
	c.kubectl("delete", "pod", "-n", c.namespace, name, "--wait")
	return s
}

type sighting struct {
	at   float64
	cpus cpuset.Set
}

func (c cpus) seen(name string) []sighting {
	c.t.Helper()
	var out []sighting
	for line := range strings.Lines(c.kubectl("logs", "-n", c.namespace, name)) {
		at, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		when, err := strconv.ParseFloat(at, 64)
		set, err2 := cpuset.Parse(list)
		if err != nil || err2 != nil || set.Empty() {
			c.t.Fatalf("%s writes %q", name, line)
		}
		out = append(out, sighting{when, set})
	}
	if len(out) == 0 {
		c.t.Fatalf("%s has written nothing", name)
	}
	return out
}

// sharedHave waits until the shared containers have these CPUs.
func (c cpus) sharedHave(want cpuset.Set) {
	c.t.Helper()
	for _, name := range []string{"shared", "later"} {
		c.until(name+" has CPUs "+want.String(), func(context.Context) error {
			if got := c.now(name); !got.Equal(want) {
				return fmt.Errorf("it has %s", got)
			}
			return nil
		})
	}
}

// neverOn: what a shared container has seen of its CPUs was never a pinned one's at the same time.
func (c cpus) neverOn(name string, pinned []span) {
	c.t.Helper()
	seen := c.seen(name)
	for i, s := range seen {
		until := float64(time.Now().UnixNano()) / 1e9
		if i+1 < len(seen) {
			until = seen[i+1].at
		}
		for _, p := range pinned {
			// It looks twenty times a second, so a change is seen a little late.
			if s.at < p.to && until > p.from+sampling && s.cpus.Overlaps(p.cpus) {
				c.t.Errorf("%s ran on %s from %.3f to %.3f, and %s on %s from %.3f to %.3f", name, s.cpus, s.at, until, p.name, p.cpus, p.from, p.to)
			}
		}
	}
}

// sampling is how late a loaded machine may see a change.
const sampling = 2.0
