package sysfs

import (
	"io/fs"
	"path"
	"regexp"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// PCIeRoots reads which CPUs are near to each PCIe root complex, sorted by name. A
// root that doesn't tell is left out.
func PCIeRoots(root fs.FS) []cpuset.Root {
	entries, err := fs.ReadDir(root, "devices")
	if err != nil {
		return nil
	}
	// A domain behind a volume management device has five digits.
	name := regexp.MustCompile(`^pci([0-9a-f]{4,}:[0-9a-f]{2})$`)
	r := reader{root: root}
	var out []cpuset.Root
	for _, e := range entries {
		m := name.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if cpus, ok := r.list(path.Join("devices", e.Name(), "pci_bus", m[1], "cpulistaffinity")); ok {
			out = append(out, cpuset.Root{Name: e.Name(), CPUs: cpus})
		}
	}
	return out
}
