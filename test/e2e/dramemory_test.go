package e2e

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// memory: a container whose claim has memory of a NUMA node is held to that node and to that much, and runs on the shared CPUs.
func (c cpus) memory(shared cpuset.Set) {
	c.t.Helper()
	c.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: some-memory}
spec:
  spec:
    devices:
      requests:
      - name: memory
        exactly:
          deviceClassName: memory.dra.cpu
          capacity: {requests: {dra.cpu/memory: 64Mi}}
          selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].numaNode == 0'}}]
`)
	c.pod("remembers", "some-memory")
	// Of the limit the two versions of cgroups have different files; the process sees its NUMA nodes in one way.
	out := c.kubectl("exec", "-n", c.namespace, "remembers", "--", "bash", "-c",
		`grep Mems_allowed_list /proc/1/status; echo "limit $(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null)"; env | grep ^DRA_MEMSET=`)
	if got := strings.Fields(out); strings.Join(got, " ") != "Mems_allowed_list: 0 limit 67108864 DRA_MEMSET=0" {
		c.t.Errorf("the container with 64 MiB of NUMA node 0 says %q", got)
	}
	if got := c.now("remembers"); !got.Equal(shared) {
		c.t.Errorf("the container with memory alone runs on %s, want %s", got, shared)
	}
	c.kubectl("delete", "pod", "-n", c.namespace, "remembers", "--wait")
}

// takeHugePages maps 4 MiB of huge pages, as a program does that asks the kernel for them: by mmap's number, which is that of amd64.
const takeHugePages = `$at = syscall(9, 0, 4 << 20, 3, 0x40022 | 0x8000, -1, 0); # read, write; private, anonymous, huge, at once
die "mmap: $!\n" if $at == -1;
print "has huge pages\n"`

// hugePages: huge pages that the kernel sets aside are offered within seconds; a container that claims some is held to their NUMA
// node and to that many, where control groups count them, and the kernel gives them to it.
func (c cpus) hugePages() {
	c.t.Helper()
	const file = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
	before := strings.TrimSpace(c.must("", "exec", driverNode, "cat", file))
	set := func(ctx context.Context, n string) string {
		ctx, cancel := context.WithTimeout(ctx, c.patience)
		defer cancel()
		out, err := c.run(ctx, "", "exec", driverNode, "sh", "-c", "echo "+n+" >"+file+"; cat "+file)
		if err != nil {
			c.t.Error(err)
		}
		return strings.TrimSpace(out)
	}
	c.t.Cleanup(func() { set(context.Background(), before) })
	if got := set(c.t.Context(), "6"); got != "6" {
		c.t.Logf("the machine sets %s of 6 huge pages aside: how containers get them isn't shown", got)
		return
	}
	c.until("the huge pages are offered", func(ctx context.Context) error {
		out, err := c.run(ctx, "", "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=dra.cpu,spec.nodeName="+driverNode, "-o",
			`jsonpath={.items[*].spec.devices[?(@.name=="memdevnuma000")].capacity.dra\.cpu/hugepages2Mi.value}`)
		if err == nil && out != "12Mi" {
			err = fmt.Errorf("offered are %q", out)
		}
		return err
	})
	c.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: huge-pages}
spec:
  spec:
    devices:
      requests:
      - name: memory
        exactly: {deviceClassName: memory.dra.cpu, capacity: {requests: {dra.cpu/hugepages2Mi: 3Mi}}}
`)
	c.pod("huge", "huge-pages")
	script, want := `grep Mems_allowed_list /proc/1/status; env | grep ^DRA_MEMSET=; cat /sys/fs/cgroup/hugetlb.2MB.max 2>/dev/null; `, "Mems_allowed_list: 0 DRA_MEMSET=0"
	limited := want + " 4194304" // the 3 MiB of the claim are two pages
	if runtime.GOARCH == "amd64" {
		script, want = script+`perl -e '`+takeHugePages+`'`, want+" has huge pages"
	}
	// With control groups that count huge pages kubelet gives none to a pod that doesn't ask for them in its resources, so there it is the limit that shows.
	if got := strings.Join(strings.Fields(c.kubectl("exec", "-n", c.namespace, "huge", "--", "bash", "-c", script)), " "); got != want && !strings.HasPrefix(got, limited) {
		c.t.Errorf("the container with 4 MiB of huge pages says %q, want %q", got, want)
	}
	c.kubectl("delete", "pod", "-n", c.namespace, "huge", "--wait")
}
