package cpuset

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const mi, gi = 1 << 20, 1 << 30

// withMemory has two NUMA nodes with CPUs and one of memory alone.
func withMemory(e Exposure) Machine {
	top := shape{"", 2, 2, 2, 8, 1, true, true, false}.build()
	top.Memory = []NodeMemory{
		{0, Memory{Bytes: 4*gi + 5, Hugepages2Mi: 8 * mi, Hugepages1Gi: 2 * gi}}, {1, Memory{Bytes: 2 * gi}}, {2, Memory{Bytes: mi}},
	}
	e.Memory = true
	return Machine{Topology: top, Exposure: e, Pool: "node-1", Devices: Devices(top, e)}
}

// A NUMA node's memory is one device beside the CPUs, with the standard name of its
// node; what is reserved is taken off each, and a node with nothing left isn't offered.
func TestMemoryDevices(t *testing.T) {
	m := withMemory(Exposure{Mode: Grouped, GroupBy: ByNUMANode, ReservedMemory: gi})
	var got []string
	for _, d := range m.Devices {
		if d.Memory != nil {
			text, err := json.Marshal(d.Describe(m.Exposure))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
	}
	const where = `"dra.cpu/kind":{"string":"memory"},"dra.cpu/numaNodeID":{"int":N},"dra.cpu/socketID":{"int":N},` +
		`"dra.net/numaNode":{"int":N},"resource.kubernetes.io/numaNode":{"int":N}`
	policy := func(max, step string) string {
		return `{"value":"` + max + `","requestPolicy":{"default":"0","validRange":{"min":"0","max":"` + max + `","step":"` + step + `"}}}`
	}
	want := []string{
		`{"name":"memdevnuma000","attributes":{` + strings.ReplaceAll(where, ":N", ":0") + `},"capacity":{"dra.cpu/hugepages1Gi":` + policy("2Gi", "1Gi") +
			`,"dra.cpu/hugepages2Mi":` + policy("8Mi", "2Mi") + `,"dra.cpu/memory":` + policy("3Gi", "1Mi") + `},"allowMultipleAllocations":true}`,
		`{"name":"memdevnuma001","attributes":{` + strings.ReplaceAll(where, ":N", ":1") + `},"capacity":{"dra.cpu/memory":` + policy("1Gi", "1Mi") +
			`},"allowMultipleAllocations":true}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e := m.Exposure
	e.Memory = false
	if all := Devices(m.Topology, e); len(all) != 2 {
		t.Errorf("nobody asked for memory, and there are %d devices", len(all))
	}
	m = withMemory(Exposure{Mode: Individual, NodeAllocatable: true})
	last := m.Devices[len(m.Devices)-1].Describe(m.Exposure)
	if key := last.NodeAllocatableResources["memory"].Mapping.CapacityKey; last.Name != "memdevnuma002" || *key != CapacityMemory {
		t.Errorf("got %v", last)
	}
}

// asks is a result for a device, as a scheduler writes it.
func asks(request, device string, of map[resourceapi.QualifiedName]string) resourceapi.DeviceRequestAllocationResult {
	r := resourceapi.DeviceRequestAllocationResult{Request: request, Driver: DriverName, Pool: "node-1", Device: device,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{}}
	for name, q := range of {
		r.ConsumedCapacity[name] = resource.MustParse(q)
	}
	return r
}

func allocatedAs(results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	rc := &resourceapi.ResourceClaim{}
	rc.Status.Allocation = &resourceapi.AllocationResult{}
	rc.Status.Allocation.Devices.Results = results
	return rc
}

// CPUs and memory come in one claim; an exact set of CPUs is no matter of the memory's.
func TestCPUsWithMemory(t *testing.T) {
	m := withMemory(Exposure{Mode: Grouped, GroupBy: ByNUMANode})
	rc := allocatedAs(asks("cpu", "cpudevnuma001", map[resourceapi.QualifiedName]string{CapacityCPU: "2"}),
		asks("mem", "memdevnuma001", map[resourceapi.QualifiedName]string{CapacityMemory: "1Gi"}))
	rc.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim}}
	o := &resourceapi.OpaqueDeviceConfiguration{Driver: DriverName}
	o.Parameters.Raw = []byte(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"5,7","sharing":"pod"}}`)
	rc.Status.Allocation.Devices.Config[0].Opaque = o
	got, terms, err := m.Resolve(rc, nil)
	if err != nil || len(got) != 2 || got[0].CPUs.String() != "5,7" || terms.Sharing != SharedByPod {
		t.Fatalf("got %+v, %v, %v", got, terms, err)
	}
	if diff := cmp.Diff(&NodeMemory{1, Memory{Bytes: gi}}, got[1].Memory); diff != "" || !got[1].CPUs.Empty() {
		t.Errorf("CPUs %s, (-want +got):\n%s", got[1].CPUs, diff)
	}
	rc.Status.Allocation.Devices.Config[0].Requests = []string{"mem"}
	if _, _, err := m.Resolve(rc, nil); err == nil || !strings.Contains(err.Error(), "of none of its devices") {
		t.Errorf("CPUs of memory: %v", err)
	}
}

// More than there is is refused by the names of those who have it, within a claim, too.
func TestMemoryRefused(t *testing.T) {
	m := withMemory(Exposure{Mode: Individual})
	held := []Held{{Holder: "claim default/a", Memory: []NodeMemory{{0, Memory{Bytes: 3 * gi, Hugepages2Mi: 8 * mi}}, {1, Memory{Bytes: gi}}}}}
	type want = map[resourceapi.QualifiedName]string
	for _, c := range []struct {
		device string
		of     want
		error  string
	}{
		{"memdevnuma000", want{CapacityMemory: "1Gi"}, ""},
		{"memdevnuma000", want{CapacityMemory: "1025Mi"}, "it consumes 1025Mi of dra.cpu/memory, and NUMA node 0 has 1Gi free of 4Gi: the rest belongs to claim default/a (3Gi)"},
		{"memdevnuma000", want{CapacityHugepages2Mi: "2Mi"}, "NUMA node 0 has 0 free of 8Mi: the rest belongs to claim default/a (8Mi)"},
		{"memdevnuma000", want{CapacityHugepages1Gi: "2Gi", CapacityMemory: "0"}, ""},
		{"memdevnuma000", want{CapacityHugepages1Gi: "3Gi"}, "nobody has any of it"},
		{"memdevnuma001", want{CapacityHugepages2Mi: "2Mi"}, "NUMA node 1 has 0 free of 0"},
		{"memdevnuma001", want{CapacityMemory: "0"}, "it asks for nothing"},
		{"memdevnuma001", want{CapacityCPU: "1"}, "it asks for nothing"},
		{"memdevnuma001", want{CapacityMemory: "1500k"}, "only whole pages of 1Mi"},
		{"memdevnuma001", want{CapacityMemory: "-1Mi"}, "only whole pages"},
		{"memdevnuma003", want{CapacityMemory: "1Mi"}, "no such device"},
	} {
		_, _, err := m.Resolve(allocatedAs(asks("mem", c.device, c.of)), held)
		if c.error == "" && err != nil || c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error)) {
			t.Errorf("%v of %s: got %v, want %q", c.of, c.device, err, c.error)
		}
	}
	twice := allocatedAs(asks("a", "memdevnuma001", want{CapacityMemory: "1Gi"}), asks("b", "memdevnuma001", want{CapacityMemory: "1536Mi"}))
	if _, _, err := m.Resolve(twice, nil); err == nil || !strings.Contains(err.Error(), `request "a" of the same claim (1Gi)`) {
		t.Errorf("twice in one claim: %v", err)
	}
}
