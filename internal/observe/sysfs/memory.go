package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const nodeDir = "devices/system/node"

// Memory reads the memory of the NUMA nodes, those without CPUs too, sorted by node:
// huge pages as the kernel has set them aside, and what is left beside them. A node that
// doesn't tell is left out.
func Memory(root fs.FS) []cpuset.NodeMemory {
	r := reader{root: root}
	var out []cpuset.NodeMemory
	for _, id := range nodes(root) {
		at := path.Join(nodeDir, "node"+strconv.Itoa(id))
		total, ok := r.memTotal(path.Join(at, "meminfo"))
		if !ok {
			continue
		}
		m := cpuset.NodeMemory{Node: id}
		m.Hugepages2Mi, m.Hugepages1Gi = r.hugepages(at, 2<<20), r.hugepages(at, 1<<30)
		m.Bytes = max(total-m.Hugepages2Mi-m.Hugepages1Gi, 0)
		out = append(out, m)
	}
	return out
}

// memTotal reads a line as "Node 0 MemTotal:       24581692 kB".
func (r *reader) memTotal(name string) (int64, bool) {
	text, _ := r.text(name)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 || f[2] != "MemTotal:" || f[4] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(f[3], 10, 64)
		return n << 10, err == nil && n >= 0 && n < 1<<40
	}
	return 0, false
}

// hugepages are the bytes that a node has in pages of a size.
func (r *reader) hugepages(node string, size int64) int64 {
	n := int64(r.number(path.Join(node, "hugepages", fmt.Sprintf("hugepages-%dkB", size>>10), "nr_hugepages")))
	if n < 0 || n > 1<<32 {
		return 0
	}
	return n * size
}
