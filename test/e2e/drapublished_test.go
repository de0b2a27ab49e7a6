package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// What the published driver's own suite asks of a cluster, in a box: its manifests, with fewer CPUs, in both modes; what
// programs read of a claim; metrics and health; and that a variable which a pod makes up is refused.
func TestPublishedCPUManifests(t *testing.T) {
	// Not beside other stories: it takes CPUs of the node from their containers.
	c := cpus{open(t, "e2e-cpumodes")}
	c.install(driverNode, "cpuDeviceMode: individual")
	c.until("each CPU is a device", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu", "-o",
			`jsonpath={range .items[*].spec.devices[*]}{.name} {.attributes.dra\.cpu/cpuID.int} {.attributes.dra\.cpu/socketID.int}{"\n"}{end}`)
		if err == nil && !strings.HasPrefix(out, "cpudev000 0 ") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	if n := strings.Count(c.kubectl("get", "resourceslices", "--field-selector", "spec.driver=dra.cpu", "-o", "jsonpath={.items[*].spec.devices[*].name}"), "cpudev"); n < 2 {
		t.Skipf("the node has %d CPU: nothing can be exclusive", n)
	}
	c.example("individual.yaml", "individual")
	left, right := c.runsOn("individual", "left"), c.runsOn("individual", "right")
	if left.Len() != 1 || right.Len() != 1 || left.Overlaps(right) {
		t.Errorf("the two containers have CPUs %s and %s", left, right)
	}
	c.reads("individual", "left", map[string]string{"dra.cpu/cpuID": left.String(), "dra.cpu/cpus": left.String()})
	c.gauges(map[string]string{"dra_cpu_allocated_cpus": "2", "dra_cpu_resource_claims_active": "2", "dra_cpu_reserved_cpus": "0"})
	c.kubectl("delete", "pod", "-n", c.namespace, "individual", "--wait")
	c.gauges(map[string]string{"dra_cpu_allocated_cpus": "0", "dra_cpu_resource_claims_active": "0"})

	c.chart(driverNode, "cpuDeviceMode: grouped")
	all := c.online()
	c.example("grouped.yaml", "grouped")
	one := c.runsOn("grouped", "main")
	if one.Len() != 1 {
		t.Errorf("the container has CPUs %s", one)
	}
	c.reads("grouped", "main", map[string]string{"dra.cpu/allocatedNumCPUs": "1", "dra.cpu/cpus": one.String()})
	c.forged()
	c.kubectl("delete", "pod", "-n", c.namespace, "grouped", "--wait")
	c.example("pod-level.yaml", "pod-level")
	if main, beside := c.runsOn("pod-level", "main"), c.runsOn("pod-level", "beside"); main.Len() != 1 || !beside.Equal(all.Minus(main)) {
		t.Errorf("main has CPUs %s, and the container beside it %s", main, beside)
	}
	if out := c.asks("/healthz"); !strings.Contains(out, "200 OK") {
		t.Errorf("/healthz says %s", out)
	}
}

// example makes the pod of a published manifest, on the driver's node.
func (c cpus) example(file, pod string) {
	c.t.Helper()
	c.apply(strings.Replace(example(c.t, "dra-cpu/"+file), "  terminationGracePeriodSeconds", "  nodeSelector: {kubernetes.io/hostname: "+driverNode+"}\n  terminationGracePeriodSeconds", 1))
	c.wait("pod/"+pod, "condition=Ready")
}

// runsOn is what a container of a pod runs on.
func (c cpus) runsOn(pod, container string) cpuset.Set {
	c.t.Helper()
	out := c.kubectl("exec", "-n", c.namespace, pod, "-c", container, "--", "grep", "Cpus_allowed_list", "/proc/1/status")
	return parsed(c.t, strings.TrimPrefix(out, "Cpus_allowed_list:"))
}

// reads: the container finds its device's attributes in its metadata file, under the claim and the request.
func (c cpus) reads(pod, container string, want map[string]string) {
	c.t.Helper()
	out := c.kubectl("exec", "-n", c.namespace, pod, "-c", container, "--", "bash", "-c",
		"cat /var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/*/request-cpus/dra.cpu-metadata.json")
	var file any
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&file); err != nil {
		c.t.Fatalf("%v:\n%s", err, out)
	}
	flat, err := json.Marshal(file)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range want {
		if !regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `":\{"[a-z]+":"?` + regexp.QuoteMeta(value) + `"?\}`).Match(flat) {
			c.t.Errorf("the metadata of %s lacks %s=%s:\n%s", pod, name, value, flat)
		}
	}
}

// asks is what the driver answers on its port.
func (c cpus) asks(path string) string {
	c.t.Helper()
	return c.must("", "exec", driverNode, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET `+path+` HTTP/1.0\r\n\r\n' >&3; cat <&3`)
}

func (c cpus) gauges(want map[string]string) {
	c.t.Helper()
	c.until("the metrics follow", func(context.Context) error {
		out := c.asks("/metrics")
		for name, value := range want {
			if !strings.Contains(out, "\n"+name+" "+value+"\n") {
				return fmt.Errorf("%s is not %s", name, value)
			}
		}
		return nil
	})
}

// forged: a pod that makes a claim's variable up is refused with a sentence.
func (c cpus) forged() {
	c.t.Helper()
	c.apply(strings.Replace(podWith("forged", ""), "env: [", `env: [{name: DRA_CPUSET_made-up, value: "0-1"}, `, 1))
	c.until("the forged variable is refused", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "pod", "-n", c.namespace, "forged", "-o", "jsonpath={.status.containerStatuses[0].state.waiting}")
		if err == nil && !(strings.Contains(out, "CreateContainerError") && strings.Contains(out, "claim made-up is not prepared on this node")) {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	c.kubectl("delete", "pod", "-n", c.namespace, "forged", "--wait")
}
