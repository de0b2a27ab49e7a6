package cpuset

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
)

// What is published for each machine and mode, as golden files: the first and the last device.
// CPU checks 7, 40 and 63.
func TestDevicesGolden(t *testing.T) {
	for _, s := range shapes() {
		var out strings.Builder
		for _, e := range exposures(Set{}) {
			devices := Devices(s.build(), e)
			fmt.Fprintf(&out, "# %s %s: %d devices\n", e.Mode, e.GroupBy, len(devices))
			for i, d := range devices {
				if i == 0 || i == len(devices)-1 {
					text, err := json.Marshal(d.Describe(e))
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&out, "%s %s\n", d.CPUs, text)
				}
			}
		}
		golden(t, strings.NewReplacer(" ", "-", ":", "", ",", "").Replace(s.name)+".txt", out.String())
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

func exposures(reserved Set) []Exposure {
	return []Exposure{
		{Mode: Individual, Reserved: reserved},
		{Mode: Grouped, GroupBy: ByNUMANode, Reserved: reserved},
		{Mode: Grouped, GroupBy: BySocket, Reserved: reserved},
		{Mode: Grouped, GroupBy: ByL3Cache, Reserved: reserved},
		{Mode: Grouped, GroupBy: ByCoreType, Reserved: reserved},
		{Mode: Grouped, GroupBy: ByMachine, Reserved: reserved},
	}
}

// Every CPU is offered exactly once, reserved ones never; a name means the same
// CPUs whatever is reserved; slices are full and within the API's limits.
// CPU checks 9, 16, 50 and 56.
func TestDevicesInvariants(t *testing.T) {
	for _, s := range shapes() {
		top := s.build()
		reserved := Of(0, s.cores*s.smt-1)
		for i, e := range exposures(reserved) {
			t.Run(fmt.Sprintf("%s %s %s", s.name, e.Mode, e.GroupBy), func(t *testing.T) {
				if e.GroupBy == ByL3Cache && !s.l3 {
					t.Skip("this machine has no L3")
				}
				devices, all := Devices(top, e), Devices(top, exposures(Set{})[i])
				var seen Set
				for _, d := range devices {
					if d.CPUs.Overlaps(seen) || d.CPUs.Overlaps(reserved) || d.CPUs.Empty() {
						t.Errorf("%s offers %s, and before it were %s", d.Name, d.CPUs, seen)
					}
					seen = seen.Union(d.CPUs)
					if !d.CPUs.Within(named(all, d.Name).CPUs) {
						t.Errorf("%s changes its CPUs when some are reserved", d.Name)
					}
				}
				if want := top.All().Minus(reserved); !seen.Equal(want) {
					t.Errorf("offered are %s, want %s", seen, want)
				}
				checkSlices(t, devices, e)
			})
		}
	}
}

func named(devices []Device, name string) Device {
	for _, d := range devices {
		if d.Name == name {
			return d
		}
	}
	return Device{}
}

func checkSlices(t *testing.T, devices []Device, e Exposure) {
	t.Helper()
	n, lists := 0, Slices(devices, e)
	for i, list := range lists {
		n += len(list)
		if len(list) > resourceapi.ResourceSliceMaxDevices || i < len(lists)-1 && len(list) < resourceapi.ResourceSliceMaxDevices {
			t.Errorf("slice %d of %d has %d devices", i, len(lists), len(list))
		}
		for _, d := range list {
			if len(d.Attributes)+len(d.Capacity) > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
				t.Errorf("%s has too many attributes", d.Name)
			}
		}
	}
	if n != len(devices) {
		t.Errorf("%d devices in slices, want %d", n, len(devices))
	}
}

// How large the slices of 384 CPUs are, as JSON, and how long they take to make.
func BenchmarkGroupedSlices384(b *testing.B) {
	top := shape{"", 2, 2, 24, 192, 2, true, true, false}.build()
	e := Exposure{Mode: Grouped, GroupBy: ByNUMANode}
	size := 0
	for b.Loop() {
		text, err := json.Marshal(Slices(Devices(top, e), e))
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "slice-bytes")
}

// 384 CPUs in groups are less than 2 KB.
// CPU check 39.
func TestGroupedSlicesAreSmall(t *testing.T) {
	s := shape{"", 2, 2, 24, 192, 2, true, true, false}
	e := Exposure{Mode: Grouped, GroupBy: ByNUMANode}
	text, err := json.Marshal(Slices(Devices(s.build(), e), e))
	if err != nil || len(text) >= 2048 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
