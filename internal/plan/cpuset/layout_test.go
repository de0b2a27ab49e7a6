package cpuset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
)

// CPU checks 4 and 40.
func TestSMTLayout(t *testing.T) {
	byName := map[string]shape{}
	for _, s := range shapes() {
		byName[s.name] = s
	}
	odd := Topology{SMT: true, CPUs: []CPU{{ID: 0}, {ID: 1}, {ID: 3}, {ID: 4, Core: 4}}}
	for _, c := range []struct {
		top        Topology
		cpus, want string
	}{
		{byName["A: desktop"].build(), "0-15", "v1:0-7>8"},
		{byName["A: desktop"].build(), "1-15", "v1:8;1-7>8"}, // the first thread of core 0 is reserved
		{byName["A: desktop"].build(), "0-7", ""},
		{byName["POWER with SMT8"].build(), "0-255", "v1:0-31>32"},
		{byName["Arm server without SMT"].build(), "0-159", ""},
		{byName["virtual machine with threads side by side"].build(), "0-9", "v1:0,2,4,6,8>1"},
		{hybrid(), "0-7", "v1:0,2>1;4-7"},
		{odd, "0-1,3-4", ""},
	} {
		cpus, err := Parse(c.cpus)
		if err != nil {
			t.Fatal(err)
		}
		if got := smtLayout(c.top.GroupBy(byCore), cpus); got != c.want {
			t.Errorf("%s: got %q, want %q", c.cpus, got, c.want)
		}
	}
}

// A text that the API doesn't take at once is published in parts that are the same text.
func TestLongTexts(t *testing.T) {
	var list []string
	for id := range 160 {
		list = append(list, fmt.Sprint(2*id))
	}
	long := strings.Join(list, ",")
	a := attributes{}
	setLong(a, "dra.cpu/cpuIDs", long)
	whole := ""
	for i := range len(a) {
		part := a[resourceapi.QualifiedName(fmt.Sprintf("dra.cpu/cpuIDs%d", i))].StringValue
		if part == nil || len(*part) > resourceapi.DeviceAttributeMaxValueLength || !strings.HasPrefix(long, whole+*part) {
			t.Fatalf("part %d of %d is %v", i, len(a), part)
		}
		whole += *part
	}
	if whole != long {
		t.Errorf("got %q", whole)
	}
	setLong(a, "dra.cpu/smtLayout", strings.Repeat(long, 3))
	if _, ok := a["dra.cpu/smtLayout0"]; ok {
		t.Error("more is published than a device may have")
	}
	setLong(a, "dra.cpu/short", "0-3")
	if v := a["dra.cpu/short"].StringValue; v == nil || *v != "0-3" {
		t.Errorf("got %v", v)
	}
}

// A device names the PCIe roots near to the CPUs that it can give.
func TestPCIeRoots(t *testing.T) {
	top := shape{"", 2, 2, 2, 8, 1, true, true, false}.build()
	top.PCIeRoots = []Root{{"pci0000:00", Of(0, 1, 2, 3)}, {"pci0000:40", Of(0, 1, 2, 3)}, {"pci0000:80", Of(4, 5, 6, 7)}, {"pci0000:ff", Of(7)}}
	e := Exposure{Mode: Grouped, GroupBy: ByNUMANode, PCIeRoots: true, Reserved: Of(7)}
	var got [][]string
	for _, d := range Devices(top, e) {
		got = append(got, d.Attributes[pcieRoot].StringValues)
	}
	if diff := cmp.Diff([][]string{{"pci0000:00", "pci0000:40"}, {"pci0000:80"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.PCIeRoots = false
	if d := Devices(top, e)[0]; d.Attributes[pcieRoot].StringValues != nil {
		t.Error("roots are published though nobody has asked for them")
	}
	many := shape{"", 1, 1, 1, 65, 1, true, true, false}.build()
	for _, roots := range []bool{true, false} {
		e := Exposure{Mode: Individual, PCIeRoots: roots}
		if n := len(Slices(Devices(many, e), e)); (n == 2) != roots {
			t.Errorf("65 devices are in %d slices; lists of roots: %v", n, roots)
		}
	}
}
