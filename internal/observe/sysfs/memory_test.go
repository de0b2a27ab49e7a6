package sysfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Two nodes with huge pages, one of memory alone, as CXL memory is, and ones that don't tell.
func TestMemory(t *testing.T) {
	root := fstest.MapFS{}
	for name, text := range map[string]string{
		"node0/meminfo": "Node 0 MemTotal:       16777216 kB\nNode 0 MemFree:  1 kB\n", "node0/hugepages/hugepages-2048kB/nr_hugepages": "512\n",
		"node0/hugepages/hugepages-1048576kB/nr_hugepages": "2\n",
		"node10/meminfo": "Node 10 MemTotal: 2097152 kB\n", "node1/meminfo": "Node 1 MemTotal:    1048576 kB\n", "node1/hugepages/hugepages-2048kB/nr_hugepages": "-3\n",
		"node2/meminfo": "Node 2 MemFree: 1 kB\n", "node3/cpulist": "0", "node4/meminfo": "Node 4 MemTotal: many kB\n", "nodes/meminfo": "Node 5 MemTotal: 1 kB\n",
		"possible": "0-9\n",
	} {
		root["devices/system/node/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	const gi = 1 << 30
	want := []cpuset.NodeMemory{
		{Node: 0, Memory: cpuset.Memory{Bytes: 13 * gi, Hugepages2Mi: gi, Hugepages1Gi: 2 * gi}},
		{Node: 1, Memory: cpuset.Memory{Bytes: gi}},
		{Node: 10, Memory: cpuset.Memory{Bytes: 2 * gi}},
	}
	if diff := cmp.Diff(want, Memory(root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Memory(fstest.MapFS{}); len(got) > 0 {
		t.Errorf("a machine that doesn't speak of NUMA has %v", got)
	}
}
