package sysfs

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestPCIeRoots(t *testing.T) {
	root := fstest.MapFS{}
	for name, list := range map[string]string{
		"pci0000:00/pci_bus/0000:00": "0-23,48-71\n", "pci0000:80/pci_bus/0000:80": "24-47,72-95\n", "pci10000:e1/pci_bus/10000:e1": "0-95",
		"pci0000:c0/pci_bus/0000:c0": "nonsense", "pci0000:FF/pci_bus/0000:FF": "0", "pnp0/pci_bus/x": "0", "pci0000:12/pci_bus/0000:13": "0",
	} {
		root["devices/"+name+"/cpulistaffinity"] = &fstest.MapFile{Data: []byte(list)}
	}
	var got []string
	for _, r := range PCIeRoots(root) {
		got = append(got, fmt.Sprint(r.Name, " ", r.CPUs))
	}
	if diff := cmp.Diff([]string{"pci0000:00 0-23,48-71", "pci0000:80 24-47,72-95", "pci10000:e1 0-95"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := PCIeRoots(fstest.MapFS{}); len(got) > 0 {
		t.Errorf("a machine without devices has %v", got)
	}
}
