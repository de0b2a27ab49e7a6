package e2e

import (
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
