package e2e

import (
	"context"
	"fmt"
	"strings"
)

// readLimits is a shell's program that prints the limits of the container whose ID is its argument.
const readLimits = `for at in /sys/fs/cgroup/kubepods/*/$1 /sys/fs/cgroup/kubepods/*/*/$1; do
  [ -d $at ] && echo memory $(cat $at/memory.max) huge $(cat $at/hugetlb.2MB.max)
done; true`

// fillHugePages maps 4 MiB of huge pages, tells how many are left on the NUMA node, and asks for one more.
const fillHugePages = `sub take { syscall(9, 0, $_[0] << 20, 3, 0x40022 | 0x8000, -1, 0) } # mmap: read, write; private, anonymous, huge, at once
take(4) == -1 and die "mmap: $!\n";
open $free, "<", "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages" or die "open: $!\n";
print "left ", <$free>;
print take(2) == -1 ? "no more: $!\n" : "more than claimed\n"`

// hugePages: a claim for a CPU, memory and huge pages of one NUMA node has all of them there, and the kernel limits it to them.
func (c numaNode) hugePages() {
	c.t.Helper()
	c.chart(emulated, "memoryNodes: local", "memoryDevices: numanode", "selfManaged: [slurm/app.kubernetes.io/name=slurmd]")
	const file = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
	if out := c.must("", c.inside("sh", "-ec", "echo 4 >"+file+"; cat "+file)...); strings.TrimSpace(out) != "4" {
		c.t.Fatalf("of 4 huge pages the machine sets aside %s", out)
	}
	c.until("the huge pages are offered", func(ctx context.Context) error {
		return c.says(ctx, "8Mi", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+emulated, "-o",
			`jsonpath={.items[*].spec.devices[?(@.name=="memdevnuma001")].capacity.dra\.cpu/hugepages2Mi.value}`)
	})
	c.kill("/usr/local/bin/kube kubelet") // which counts huge pages when it starts
	c.until("the node has huge pages for pods that ask for them", func(ctx context.Context) error {
		return c.says(ctx, "8Mi", "get", "node", emulated, "-o", `jsonpath={.status.allocatable.hugepages-2Mi}`)
	})
	c.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: huge}
spec:
  spec:
    devices:
      requests:
      - {name: cpu, exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "1"}}}}
      - name: memory
        exactly: {deviceClassName: memory.dra.cpu, capacity: {requests: {dra.cpu/memory: 64Mi, dra.cpu/hugepages2Mi: 3Mi}}}
      constraints: [{matchAttribute: resource.kubernetes.io/numaNode}]
`)
	// The pod may have more huge pages than its container has claimed.
	c.apply(strings.Replace(c.manifest("huge", "huge"), "claims: [{name: cpu}]", "claims: [{name: cpu}], requests: {cpu: 10m}, limits: {hugepages-2Mi: 8Mi}", 1))
	c.wait("pod/huge", "condition=Ready")
	if has := c.sets("huge")["huge"]; has.cpus.Len() != 1 || !has.cpus.Within(parsed(c.t, "4-7")) || has.mems.String() != "1" {
		c.t.Errorf("with huge pages of NUMA node 1 the container has %s", has)
	}
	id := c.kubectl("get", "pod", "-n", c.namespace, "huge", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	out := strings.TrimSpace(c.must("", c.inside("sh", "-c", readLimits, "sh", strings.TrimPrefix(id, "containerd://"))...))
	if out != "memory 67108864 huge 4194304" { // the 3 MiB of the claim are two pages
		c.t.Errorf("its limits are %q", out)
	}
	out = c.kubectl("exec", "-n", c.namespace, "huge", "--", "perl", "-e", fillHugePages)
	if want := "left 2\nno more: Cannot allocate memory\n"; out != want {
		c.t.Errorf("the container takes its huge pages: %q, want %q", out, want)
	}
}

// says is an error unless kubectl prints just that.
func (c numaNode) says(ctx context.Context, want string, args ...string) error {
	out, err := c.run(ctx, "", append([]string{"kubectl"}, args...)...)
	if err == nil && out != want {
		err = fmt.Errorf("it says %q, want %q", out, want)
	}
	return err
}
