package dracpu

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const gi = int64(1) << 30

// numaMemory is numa with the memory of its two nodes.
func numaMemory(n int) cpuset.Machine {
	m := numa(n, "")
	m.Topology.Memory = []cpuset.NodeMemory{
		{Node: 0, Memory: cpuset.Memory{Bytes: 8 * gi, Hugepages2Mi: gi}}, {Node: 1, Memory: cpuset.Memory{Bytes: 8 * gi, Hugepages1Gi: 2 * gi}},
	}
	m.Exposure.Memory = true
	m.Devices = cpuset.Devices(m.Topology, m.Exposure)
	return m
}

// andMemory adds a request for memory of a node to a claim.
func andMemory(rc *resourceapi.ResourceClaim, node int, of map[resourceapi.QualifiedName]string) *resourceapi.ResourceClaim {
	r := resourceapi.DeviceRequestAllocationResult{Request: "mem", Driver: cpuset.DriverName, Pool: "node-1", Device: fmt.Sprintf("memdevnuma%03d", node),
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{}}
	for name, q := range of {
		r.ConsumedCapacity[name] = resource.MustParse(q)
	}
	rc.Status.Allocation.Devices.Results = append(rc.Status.Allocation.Devices.Results, r)
	return rc
}

// onlyMemory is a claim without CPUs.
func onlyMemory(uid string, node int, of map[resourceapi.QualifiedName]string) *resourceapi.ResourceClaim {
	rc := on(uid, node, 1, "")
	rc.Status.Allocation.Devices.Results = nil
	return andMemory(rc, node, of)
}

// variables are what the runtime adds for a CDI device of the claim; i is -1 for the whole claim.
func (d disk) variables(t *testing.T, uid types.UID, i int) []string {
	t.Helper()
	c, err := readOneCDI(cdiPath(d.cdi, uid))
	if err != nil {
		t.Fatal(err)
	}
	c.UID = uid
	device, err := cdiDevice(c, i)
	if err != nil {
		t.Fatal(err)
	}
	return device.ContainerEdits.Env
}

// made is what a container gets, as text.
func made(t *testing.T, p *plugin, podUID, id string, limit int64, env ...string) string {
	t.Helper()
	c := ctr(id, podUID, env...)
	if limit > 0 {
		c.Linux = &api.LinuxContainer{Resources: &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(limit)}}}
	}
	a, _, err := p.CreateContainer(t.Context(), pod(podUID), c)
	if err != nil {
		t.Fatal(err)
	}
	r := a.GetLinux().GetResources()
	out := fmt.Sprintf("cpus %s mems %s", r.GetCpu().GetCpus(), r.GetCpu().GetMems())
	if l := r.GetMemory().GetLimit(); l != nil {
		out += fmt.Sprintf(" limit %d", l.GetValue())
	}
	for _, h := range r.GetHugepageLimits() {
		out += fmt.Sprintf(" %s %d", h.GetPageSize(), h.GetLimit())
	}
	for _, e := range a.GetEnv() {
		if strings.HasPrefix(e.GetKey(), "DRA_") || strings.HasPrefix(e.GetKey(), "-DRA_") {
			out += " " + e.GetKey() + "=" + e.GetValue()
		}
	}
	return out
}

// Containers get memory of the claimed nodes alone, no more than is claimed, and CPUs
// as before; a driver that starts anew, with or without its checkpoint, does the same.
// CPU check 33.
func TestMemoryOfContainers(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numaMemory(8))
	start := func() *plugin {
		p := testPlugin(t, l)
		p.view, p.hugetlb = viewNone, true
		return p
	}
	prepared(t, l, andMemory(on("both", 1, 2, ""), 1, map[resourceapi.QualifiedName]string{cpuset.CapacityMemory: "3Gi", cpuset.CapacityHugepages1Gi: "1Gi"}))
	if _, err := prepareOne(l, onlyMemory("mem", 0, map[resourceapi.QualifiedName]string{cpuset.CapacityHugepages2Mi: "512Mi"})); err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		p := start()
		whole, first, second := d.variables(t, "both", -1), d.variables(t, "both", 0), d.variables(t, "both", 1)
		for _, c := range []struct {
			id    string
			limit int64
			env   []string
			want  string
		}{
			{"whole", 0, whole, "cpus 4-5 mems 1 limit 3221225472 1GB 1073741824 DRA_MEMSET=1 DRA_CPUSET=4-5 DRA_CPU_COUNT=2"},
			{"limited", gi, whole, "cpus 4-5 mems 1 1GB 1073741824 DRA_MEMSET=1 DRA_CPUSET=4-5 DRA_CPU_COUNT=2"},
			{"cpu", 0, first, "cpus 4-5 mems  DRA_CPUSET_both=4-5 DRA_CPUSET=4-5 DRA_CPU_COUNT=2 -DRA_CPUSET_both_0="},
			{"memory", 0, second, "cpus 0-3,6-7 mems 1 limit 3221225472 1GB 1073741824 DRA_MEMSET_both=1 DRA_MEMSET=1 -DRA_MEMSET_both_1="},
		} {
			got := made(t, p, "p", c.id, c.limit, c.env...)
			a, b := strings.Fields(got), strings.Fields(c.want)
			slices.Sort(a)
			slices.Sort(b)
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", what, c.id, diff)
			}
			l.ended(c.id)
		}
		if got := made(t, p, "q", "shared", 0, d.variables(t, "mem", -1)...); got != "cpus 0-3,6-7 mems 0 2MB 536870912 DRA_MEMSET=0" {
			t.Errorf("%s: one with memory alone has %s", what, got)
		}
		if _, err := prepareOne(l, onlyMemory("more", 0, map[resourceapi.QualifiedName]string{cpuset.CapacityHugepages2Mi: "514Mi"})); err == nil ||
			!strings.Contains(err.Error(), "(512Mi)") {
			t.Errorf("%s: more than there is: %v", what, err)
		}
		l.ended("shared")
	}
	check("at first")
	l = d.start(t, "boot", numaMemory(8))
	check("after a restart")
	if err := os.Remove(l.checkpoint.path); err != nil {
		t.Fatal(err)
	}
	l = d.start(t, "boot", numaMemory(8))
	check("without the checkpoint")
	if err := l.unprepare("mem")["mem"]; err != nil {
		t.Fatal(err)
	}
	if _, err := prepareOne(l, onlyMemory("more", 0, map[resourceapi.QualifiedName]string{cpuset.CapacityHugepages2Mi: "1Gi"})); err != nil {
		t.Errorf("all of it is free: %v", err)
	}
}

// A container can read in its metadata which CPUs and how much memory it has.
// CPU check 44.
func TestMetadata(t *testing.T) {
	l := newDisk(t).start(t, "boot", numaMemory(8))
	rc := andMemory(on("both", 1, 2, "4,6"), 1, map[resourceapi.QualifiedName]string{cpuset.CapacityMemory: "3Gi", cpuset.CapacityHugepages1Gi: "1Gi"})
	prepared(t, l, rc)
	got := []string{}
	for i, d := range (&node{ledger: l}).answer(l.claims["both"], rc) {
		for _, name := range slices.Sorted(maps.Keys(d.Metadata.Attributes)) {
			a := d.Metadata.Attributes[name]
			switch {
			case strings.Contains(name, "allocated"):
				got = append(got, fmt.Sprint(i, " ", name, " ", *a.IntValue))
			case name == "dra.cpu/cpus":
				got = append(got, fmt.Sprint(i, " ", name, " ", *a.StringValue))
			}
		}
	}
	want := []string{"0 dra.cpu/allocatedNumCPUs 2", "0 dra.cpu/cpus 4,6", "1 dra.cpu/allocatedHugepages1Gi 1073741824", "1 dra.cpu/allocatedMemory 3221225472"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A variable that says another node than the claim's is nobody's right.
func TestMemoryIsNotForged(t *testing.T) {
	l := newDisk(t).start(t, "boot", numaMemory(8))
	p := testPlugin(t, l)
	if _, err := prepareOne(l, onlyMemory("m", 0, map[resourceapi.QualifiedName]string{cpuset.CapacityMemory: "1Gi"})); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"DRA_MEMSET_m=1": "has memory of the NUMA nodes", "DRA_CPUSET_m=0": "has CPUs", "DRA_MEMSET_m=": "names no NUMA nodes", "DRA_MEMSET_x=0": "not prepared", "DRA_MEMSET_m": "has no value",
	} {
		if _, _, err := p.CreateContainer(t.Context(), pod("p"), ctr("c", "p", env)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", env, err)
		}
	}
}

// class is the chart's device classes, to the scheduler's allocator.
type classes map[string]string

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	expression, ok := c[name]
	if !ok {
		return nil, fmt.Errorf("there is no class %s", name)
	}
	out := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return out, nil
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var out []*resourceapi.DeviceClass
	for _, name := range slices.Sorted(maps.Keys(c)) {
		class, err := c.Get(name)
		if err != nil {
			return nil, err
		}
		out = append(out, class)
	}
	return out, nil
}

// wants is a claim for CPUs and memory of one NUMA node.
func wants(uid string, cpus int, memory int64) *resourceapi.ResourceClaim {
	request := func(name, class string, capacity resourceapi.QualifiedName, q *resource.Quantity) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{capacity: *q}}}}
	}
	rc := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-" + uid, UID: types.UID(uid)}}
	rc.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		request("cpu", "dra.cpu", cpuset.CapacityCPU, resource.NewQuantity(int64(cpus), resource.DecimalSI)),
		request("mem", "memory.dra.cpu", cpuset.CapacityMemory, resource.NewQuantity(memory, resource.BinarySI)),
	}
	rc.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName("resource.kubernetes.io/numaNode"))}}
	return rc
}

// Whatever Kubernetes' own allocator gives out of the published devices, in any order of
// claims that come and go, the driver can give, too: CPUs and memory are of one node, no
// CPU is given twice, and no node more memory than it has. What it can't give is refused.
// CPU check 10.
func TestSchedulerAndDriverAgree(t *testing.T) {
	m := numaMemory(16)
	lists := cpuset.Slices(m.Devices, m.Exposure)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: cpuset.DriverName, NodeName: new("node-1"), Devices: lists[0], Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	chart := classes{
		"dra.cpu":        `device.driver == "dra.cpu" && !has(device.attributes["dra.cpu"].kind)`,
		"memory.dra.cpu": `device.driver == "dra.cpu" && has(device.attributes["dra.cpu"].kind) && device.attributes["dra.cpu"].kind == "memory"`,
	}
	l := newDisk(t).start(t, "boot", m)
	r := rand.New(rand.NewPCG(3, 7))
	live := map[types.UID]*resourceapi.ResourceClaim{}
	full := 0
	for i := range 300 {
		if i%3 == 2 {
			for _, uid := range slices.Sorted(maps.Keys(live))[:len(live)/2] {
				if err := l.unprepare(uid)[uid]; err != nil {
					t.Fatal(err)
				}
				delete(live, uid)
			}
		}
		rc := wants(fmt.Sprint("u", i), 1+r.IntN(5), (1+r.Int64N(4000))<<20+r.Int64N(2)) // an odd byte is rounded up
		result := schedule(t, slice, chart, live, rc)
		if result == nil {
			full++
			continue
		}
		rc.Status.Allocation = result
		c, err := prepareOne(l, rc)
		if err != nil {
			t.Fatalf("the scheduler has allocated %v, and the driver: %v", result.Devices.Results, err)
		}
		live[rc.UID] = rc
		if node := l.machine.Topology.MemoryNodes(c.cpus()); !node.Equal(c.nodesOf(-1)) {
			t.Fatalf("CPUs of node %s with memory of node %s", node, c.nodesOf(-1))
		}
		checkBooks(t, l)
	}
	if full == 0 || full > 200 {
		t.Errorf("%d of 300 claims found no room: this shows nothing", full)
	}
}

// schedule is Kubernetes' allocator, with what the live claims have.
func schedule(t *testing.T, slice *resourceapi.ResourceSlice, classes structured.DeviceClassLister, live map[types.UID]*resourceapi.ResourceClaim,
	rc *resourceapi.ResourceClaim) *resourceapi.AllocationResult {
	t.Helper()
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, other := range live {
		for _, d := range other.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, d.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, d.ConsumedCapacity))
		}
	}
	a, err := structured.NewAllocator(t.Context(), structured.Features{ConsumableCapacity: true}, state, classes, []*resourceapi.ResourceSlice{slice},
		cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	results, err := a.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{rc})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		return nil
	}
	return &results[0]
}

// checkBooks: no CPU is two claims', and no node has given more memory than it has.
func checkBooks(t *testing.T, l *ledger) {
	t.Helper()
	var cpus cpuset.Set
	var memory []cpuset.NodeMemory
	for _, c := range l.sorted() {
		if c.cpus().Overlaps(cpus) {
			t.Fatalf("%s has CPUs of others: %s", c, c.cpus())
		}
		cpus, memory = cpus.Union(c.cpus()), append(memory, c.memoryOf(-1)...)
	}
	for _, m := range cpuset.MemoryByNode(memory) {
		for _, has := range l.machine.Topology.Memory {
			if has.Node == m.Node && m.Bytes > has.Bytes {
				t.Fatalf("node %d has given %d of %d bytes", m.Node, m.Bytes, has.Bytes)
			}
		}
	}
}
