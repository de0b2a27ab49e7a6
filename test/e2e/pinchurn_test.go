package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/dracpu/report"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Pinned and shared containers come and go on one node, and the driver, kubelet and containerd are killed meanwhile: what the
// kernel lets each container run on is read all the time, and checkPins finds nothing.
// CPU checks 12, 21, 22, 27, 32, 34, 49, 53, 59 and 61.
func TestPinsInChurn(t *testing.T) {
	// Not beside other stories: it kills the node's daemons.
	c := pinChurn{cpus: cpus{open(t, "e2e-pins")}, subjects: map[string]subject{}}
	c.install(driverNode, "groupBy: machine", "minSharedCPUs: 1", "cfsQuota: disable")
	all := c.online()
	if all.Len() < 2 {
		t.Skipf("the node has one CPU (%s): nothing can be exclusive", all)
	}
	low, high := cpuset.Of(all.First()), cpuset.Of(all.List()[all.Len()-1])
	for name, set := range map[string]cpuset.Set{"low": low, "high": high} {
		c.apply(exactTemplate(name, set))
	}
	c.follow()
	c.apply(comeAndGo)
	c.kubectl("rollout", "status", "-n", c.namespace, "deployment/stays", "--timeout="+c.patience.String())

	// The second wants the first one's CPU, and waits for it while the driver is killed.
	c.pinned("first", "low", low)
	c.wait("pod/first", "condition=Ready")
	c.pinned("second", "low", low)
	c.refused("second")
	c.kill("driver")
	c.gone("first")
	c.wait("pod/second", "condition=Ready")
	c.kill("kubelet")
	c.gone("second")
	c.pinned("third", "high", high)
	c.wait("pod/third", "condition=Ready")
	c.kill("containerd")
	c.gone("third")
	// Killed at the very start of a pod.
	c.pinned("fourth", "low", low)
	c.kill("kubelet", "containerd", "driver")
	c.wait("pod/fourth", "condition=Ready")
	c.unthrottled("fourth")
	c.staticPolicy("fourth", low)
	c.check()
}

func exactTemplate(name string, set cpuset.Set) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s}
spec:
  spec:
    devices:
      requests: [{name: cpu, exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "%d"}}}}]
      config: [{opaque: {driver: dra.cpu, parameters: {apiVersion: v1alpha1, cpuConfig: {cpuset: %q}}}}]
`, name, set.Len(), set)
}

// comeAndGo is shared containers that stay, and such that live two seconds each.
var comeAndGo = fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: stays}
spec:
  replicas: 2
  selector: {matchLabels: {app: stays}}
  template:
    metadata: {labels: {app: stays}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[1]s}
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: %[2]s, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: comes-and-goes}
spec:
  parallelism: 2
  completions: 1000
  backoffLimit: 1000
  template:
    metadata: {labels: {app: goes}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[1]s}
      terminationGracePeriodSeconds: 0
      restartPolicy: Never
      containers: [{name: main, image: %[2]s, imagePullPolicy: IfNotPresent, command: [sleep, "2"]}]
`, driverNode, image)

type pinChurn struct {
	cpus
	away []absence

	// What the watch and the sampler find.
	mu       sync.Mutex
	subjects map[string]subject
	samples  []sample
	err      error
	stop     func()
}

// claimsLabel is the CPUs that a pod's claim names, with an x before them and dashes for commas.
const claimsLabel = "e2e-cpus"

func (c *pinChurn) pinned(name, template string, set cpuset.Set) {
	c.t.Helper()
	labels := fmt.Sprintf("labels: {app: cpus, %s: x%s}", claimsLabel, strings.ReplaceAll(set.String(), ",", "_"))
	c.apply(strings.NewReplacer("labels: {app: cpus}", labels, "resources: {", "resources: {limits: {cpu: 200m}, ").Replace(podWith(name, template)))
}

// refused waits for the event that says why a claim can't be prepared.
func (c *pinChurn) refused(name string) {
	c.t.Helper()
	c.until("the event of "+name+" names the claim that has its CPU", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "events", "-n", c.namespace, "--field-selector", "involvedObject.name="+name, "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, "already belong to claim "+c.namespace+"/first-cpu-") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

func (c *pinChurn) gone(name string) {
	c.t.Helper()
	c.kubectl("delete", "pod", "-n", c.namespace, name, "--wait")
}

// unthrottled: what the kernel says of the pinned container, which has a limit, is what it should be, and no quota is among it.
func (c *pinChurn) unthrottled(name string) {
	c.t.Helper()
	var r report.Report
	text := c.kubectl("exec", "-n", c.namespace, "daemonset/dra-driver-cpu", "--", "/dracpu-gatherinfo", "--stdout")
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(text, "---\n")), &r); err != nil || r.Driver == nil {
		c.t.Fatalf("%v:\n%s", err, text)
	}
	for _, state := range r.Driver.Containers {
		if state.Name == c.namespace+"/"+name+"/main" {
			if has := r.Cgroups[state.ID]; has.Quota != "-1" && !strings.HasPrefix(has.Quota, "max ") || has.CPUs != state.Want.String() {
				c.t.Errorf("the kernel has for %s: %+v", name, has)
			}
			return
		}
	}
	c.t.Errorf("the driver doesn't know the container of %s: %v", name, r.Driver.Containers)
}

// staticPolicy switches kubelet's static policy on while the driver runs: it moves no container, the driver says so, and offers
// no CPU any more.
func (c *pinChurn) staticPolicy(name string, set cpuset.Set) {
	c.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(cache, "slinky", "boxes", c.name, "containers", driverNode, "conf", "kubelet.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.kubelet(file, before) })
	c.kubelet(file, append(slices.Clone(before), "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"...))
	c.until("the driver says that kubelet sets CPUs, too", func(ctx context.Context) error {
		s, err := c.state(ctx)
		if err == nil && !strings.Contains(strings.Join(s.Problems, "\n"), "set kubelet's cpuManagerPolicy to none") {
			err = fmt.Errorf("it says %q", s.Problems)
		}
		return err
	})
	c.until("the node offers no CPU", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+driverNode, "-o", "jsonpath={.items[*].spec.devices}")
		if err == nil && strings.Trim(out, "[] \n") != "" {
			err = fmt.Errorf("it offers %s", out)
		}
		return err
	})
	if got := c.cpus.now(name); !got.Equal(set) {
		c.t.Errorf("kubelet has moved %s to %s", name, got)
	}
}

// kubelet runs it with another configuration, and without what it remembers of CPUs. The test may have ended.
func (c *pinChurn) kubelet(file string, config []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), c.patience)
	defer cancel()
	pids, err := c.pids(ctx, []string{"kubelet"})
	if err == nil {
		err = os.WriteFile(file, config, 0o644)
	}
	if err == nil {
		_, err = c.run(ctx, "", "exec", driverNode, "rm", "/var/lib/kubelet/cpu_manager_state")
	}
	if err == nil {
		_, err = c.run(ctx, "", "exec", driverNode, "kill", "-KILL", pids["kubelet"])
	}
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for now := pids; err == nil && now["kubelet"] == pids["kubelet"]; {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-again.C:
			now, _ = c.pids(ctx, []string{"kubelet"}) // While there is none, there is none yet.
			if now["kubelet"] == "" {
				now = pids
			}
		}
	}
	if err == nil {
		// It has written its new policy down once it is up.
		_, err = c.run(ctx, "", "exec", driverNode, "bash", "-c", "until [ -s /var/lib/kubelet/cpu_manager_state ]; do sleep 0.2; done")
	}
	if err != nil {
		c.t.Errorf("run kubelet with another configuration: %v", err)
	}
}

// state asks the driver what it knows.
func (c *pinChurn) state(ctx context.Context) (s dracpu.Snapshot, err error) {
	out, err := c.run(ctx, "", "kubectl", "exec", "-n", c.namespace, "daemonset/dra-driver-cpu", "--", "/dracpu", "introspect", "state")
	if err == nil {
		err = decode(out, &s)
	}
	return s, err
}

// follow starts to watch the pods and to read the node's control groups.
func (c *pinChurn) follow() {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var running sync.WaitGroup
	c.stop = func() {
		stop()
		running.Wait()
	}
	c.t.Cleanup(func() { c.stop() })
	root := nodeCgroups(c.t, c.name)
	watch := exec.CommandContext(ctx, c.slinky, "kubectl", "--name", c.name, "get", "pods", "-n", c.namespace, "--watch", "--output-watch-events", "-o", "json")
	watch.Cancel = func() error { return watch.Process.Signal(os.Interrupt) } // which ends kubectl, too
	out, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = out.Close() })
	running.Go(func() {
		events := json.NewDecoder(out)
		for {
			var event struct{ Object corev1.Pod }
			if err := events.Decode(&event); err != nil {
				_ = watch.Wait() // It is ended by its context.
				c.fail(ctx, fmt.Errorf("watch the pods: %w", err))
				return
			}
			c.report(event.Object)
		}
	})
	running.Go(func() {
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
			s, err := readSample(root)
			if err != nil {
				c.fail(ctx, err)
				return
			}
			c.mu.Lock()
			c.samples = append(c.samples, s)
			c.mu.Unlock()
		}
	})
}

func (c *pinChurn) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// report takes over what the API says of a pod's container.
func (c *pinChurn) report(pod corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, status := range pod.Status.ContainerStatuses {
		_, id, ok := strings.Cut(status.ContainerID, "://")
		if known := c.subjects[id]; !ok || status.State.Running == nil || !known.reported.IsZero() {
			continue
		}
		s := subject{name: pod.Name, reported: time.Now()}
		if list, ok := strings.CutPrefix(pod.Labels[claimsLabel], "x"); ok {
			set, err := cpuset.Parse(strings.ReplaceAll(list, "_", ","))
			if err != nil {
				c.err = err
			}
			s.pinned = set
		}
		if pod.Labels["app"] != "cpus" && pod.Labels["app"] != "stays" && pod.Labels["app"] != "goes" {
			continue // The driver's own pod is made before the driver is there.
		}
		c.subjects[id] = s
	}
}

// nodeCgroups is where the machine has the control groups of the node's pods.
func nodeCgroups(t *testing.T, box string) string {
	t.Helper()
	for _, top := range []string{"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"} {
		dir := filepath.Join(top, "slinky-"+box, driverNode, "kubepods")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	t.Fatalf("this machine has no control groups of box %s", box)
	return ""
}

func readSample(root string) (sample, error) {
	s := sample{time.Now(), map[string]cpuset.Set{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err): // It went away while we looked.
			return nil
		case err != nil:
			return err
		case !d.IsDir() || len(d.Name()) != 64:
			return nil
		}
		text, err := os.ReadFile(filepath.Join(path, "cpuset.cpus"))
		if err != nil || strings.TrimSpace(string(text)) == "" {
			return nil // It is being made, or went away.
		}
		set, err := cpuset.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		s.sets[d.Name()] = set
		return fs.SkipDir
	})
	return s, err
}

// pids finds the processes of the node's daemons.
func (c *pinChurn) pids(ctx context.Context, daemons []string) (map[string]string, error) {
	const script = `for p in /proc/[0-9]*; do read -r name <$p/comm && tr '\0' ' ' <$p/cmdline | { read -r line; echo "$name ${p#/proc/} $line"; }; done 2>/dev/null; true`
	out, err := c.run(ctx, "", "exec", driverNode, "bash", "-c", script)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		for _, d := range daemons {
			is := len(f) > 3 && f[0] == "kube" && f[3] == d || len(f) > 2 && f[0] == d || d == "driver" && len(f) > 2 && f[0] == "dracpu"
			if is {
				found[d] = f[1]
			}
		}
	}
	if len(found) != len(daemons) {
		return found, fmt.Errorf("of %v there are only %v", daemons, found)
	}
	return found, nil
}

// kill ends daemons of the node without a warning, and waits until they are back and the driver is content.
func (c *pinChurn) kill(daemons ...string) {
	c.t.Helper()
	before, err := c.pids(c.t.Context(), daemons)
	if err != nil {
		c.t.Fatal(err)
	}
	args := []string{"exec", driverNode, "kill", "-KILL"}
	for _, d := range daemons {
		args = append(args, before[d])
	}
	a := absence{what: strings.Join(daemons, ", "), from: time.Now()}
	c.must("", args...)
	c.until(a.what+" run again, and the driver is content", func(ctx context.Context) error {
		now, err := c.pids(ctx, daemons)
		if err != nil {
			return err
		}
		for _, d := range daemons {
			if now[d] == before[d] {
				return fmt.Errorf("%s still runs as %s", d, now[d])
			}
		}
		s, err := c.state(ctx)
		if err == nil && len(s.Problems) > 0 {
			err = fmt.Errorf("the driver says %q", s.Problems)
		}
		return err
	})
	a.to = time.Now()
	c.away = append(c.away, a)
	c.t.Logf("%s were away for %s", a.what, a.to.Sub(a.from).Round(time.Millisecond))
}

// check ends the watching, and judges what it has seen.
func (c *pinChurn) check() {
	c.t.Helper()
	c.stop()
	if c.err != nil {
		c.t.Fatal(c.err)
	}
	shared, pods := 0, map[string]int{}
	for _, s := range c.subjects {
		if s.pinned.Empty() {
			shared++
		} else {
			pods[s.name]++
		}
	}
	n := beside(c.samples, c.subjects)
	c.t.Logf("%d samples, %d of them with pinned and shared containers side by side; %d shared containers; pinned: %v", len(c.samples), n, shared, pods)
	for _, name := range []string{"first", "second", "third", "fourth"} {
		if pods[name] != 1 {
			c.t.Errorf("%s had %d containers: a claim must survive, and its container with it", name, pods[name])
		}
	}
	if n < 200 || shared < 8 {
		c.t.Errorf("too little was seen to say anything")
	}
	for _, fault := range checkPins(c.samples, c.subjects, c.away) {
		c.t.Error(fault)
	}
}
