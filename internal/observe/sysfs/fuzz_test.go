package sysfs

import (
	"testing"
	"testing/fstest"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// Whatever the files of a machine say, it is read or refused: each CPU that is online is
// there once, and the core that it is of is one of them.
func FuzzRead(f *testing.F) {
	f.Add("0-3", "0", "0-1", "32 kB", "on")
	f.Add("0,2", "-1", "0-9", "Node 0 MemTotal: 5 kB", "")
	f.Add("", "x", "", "Node 0 MemTotal: 99999999999999999999 kB", "forceoff")
	f.Fuzz(func(t *testing.T, online, number, list, meminfo, word string) {
		root := fstest.MapFS{}
		put := func(name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }
		put("devices/system/cpu/online", online)
		put("devices/system/cpu/smt/control", word)
		put("devices/system/cpu/isolated", list)
		put("devices/cpu_atom/cpus", list)
		put("devices/pci0000:00/pci_bus/0000:00/cpulistaffinity", list)
		put("devices/system/node/node0/meminfo", meminfo)
		put("devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", number)
		for _, file := range []string{"topology/core_id", "topology/physical_package_id", "topology/die_id", "topology/cluster_id", "cpu_capacity", "cache/index3/id"} {
			put("devices/system/cpu/cpu0/"+file, number)
		}
		put("devices/system/cpu/cpu0/topology/core_cpus_list", list)
		put("devices/system/cpu/cpu0/cache/index3/level", "3")
		put("devices/system/cpu/cpu0/cache/index3/shared_cpu_list", list)
		put("devices/system/cpu/cpu0/node0/cpulist", list)
		top, err := Read(root)
		if err != nil {
			return
		}
		want, err := cpuset.Parse(online)
		if err != nil || !top.All().Equal(want) || len(top.CPUs) != want.Len() {
			t.Fatalf("online are %q, and the machine has %s", online, top.All())
		}
		for _, c := range top.CPUs {
			if !want.Has(c.Core) {
				t.Errorf("CPU %d is of core %d, which isn't online", c.ID, c.Core)
			}
		}
		for _, m := range top.Memory {
			if m.Bytes < 0 || m.Hugepages2Mi < 0 || m.Hugepages1Gi < 0 {
				t.Errorf("node %d has %+v", m.Node, m.Memory)
			}
		}
	})
}

// Whatever a file of the overlay says, it is taken or refused.
func FuzzOverlay(f *testing.F) {
	for _, s := range []string{"/sys/devices/system/cpu/online: 0-3\n", "/sys/../x: y", "- a", "/sys/a: [1]", "/sys/a/b: x\n/sys/a: y\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if root, err := Overlay(fstest.MapFS{}, text); err == nil {
			_, _ = Read(root) // may refuse; must not fall over
		}
	})
}
