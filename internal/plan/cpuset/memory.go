package cpuset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The capacities of a device of memory, in bytes. Their names are identifiers, which have no dash.
const (
	CapacityMemory       = resourceapi.QualifiedName(DriverName + "/memory")
	CapacityHugepages2Mi = resourceapi.QualifiedName(DriverName + "/hugepages2Mi")
	CapacityHugepages1Gi = resourceapi.QualifiedName(DriverName + "/hugepages1Gi")
)

// attributeKind tells devices of memory from those of CPUs, for device classes.
const attributeKind = resourceapi.QualifiedName(DriverName + "/kind")

// Memory is memory by the size of its pages, in bytes.
type Memory struct {
	Bytes        int64 `json:"bytes,omitempty"`
	Hugepages2Mi int64 `json:"hugepages2Mi,omitempty"`
	Hugepages1Gi int64 `json:"hugepages1Gi,omitempty"`
}

// NodeMemory is memory of one NUMA node.
type NodeMemory struct {
	Node int `json:"node"`
	Memory
}

// MemoryKind is one of the kinds of memory.
type MemoryKind struct {
	Capacity resourceapi.QualifiedName
	Resource corev1.ResourceName
	// Page is what it is given out in; Runtime is the page's size as container runtimes say it, "" for ordinary memory.
	Page    int64
	Runtime string
	At      func(*Memory) *int64
}

// MemoryKinds lists them.
func MemoryKinds() []MemoryKind {
	return []MemoryKind{
		{CapacityMemory, corev1.ResourceMemory, 1 << 20, "", func(m *Memory) *int64 { return &m.Bytes }},
		{CapacityHugepages2Mi, corev1.ResourceHugePagesPrefix + "2Mi", 2 << 20, "2MB", func(m *Memory) *int64 { return &m.Hugepages2Mi }},
		{CapacityHugepages1Gi, corev1.ResourceHugePagesPrefix + "1Gi", 1 << 30, "1GB", func(m *Memory) *int64 { return &m.Hugepages1Gi }},
	}
}

// Plus is the sum.
func (m Memory) Plus(o Memory) Memory {
	for _, k := range MemoryKinds() {
		*k.At(&m) += *k.At(&o)
	}
	return m
}

// MemoryByNode sums memory by NUMA node, sorted.
func MemoryByNode(all []NodeMemory) []NodeMemory {
	var out []NodeMemory
	for _, m := range all {
		i := slices.IndexFunc(out, func(o NodeMemory) bool { return o.Node == m.Node })
		if i < 0 {
			i, out = len(out), append(out, NodeMemory{Node: m.Node})
		}
		out[i].Memory = out[i].Plus(m.Memory)
	}
	slices.SortFunc(out, func(a, b NodeMemory) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// memoryDevices makes a device of each NUMA node's memory: what it has, less what is
// reserved, in whole pages.
func memoryDevices(t Topology, e Exposure) []Device {
	if !e.Memory {
		return nil
	}
	var out []Device
	for _, n := range t.Memory {
		n.Bytes = max(n.Bytes-e.ReservedMemory, 0)
		some := false
		for _, k := range MemoryKinds() {
			at := k.At(&n.Memory)
			*at -= *at % k.Page
			some = some || *at > 0
		}
		if !some {
			continue
		}
		a := attributes{attributeKind: text("memory")}
		setNUMA(a, n.Node)
		for _, c := range t.CPUs {
			if c.NUMA == n.Node {
				setKnown(a, "dra.cpu/socketID", c.Socket)
				break
			}
		}
		out = append(out, Device{Name: fmt.Sprintf("memdevnuma%03d", n.Node), Memory: &n, Attributes: a})
	}
	return out
}

// describeMemory adds the capacities. Each has its default 0: who asks for huge pages
// doesn't take ordinary memory, and the other way round.
func (d Device) describeMemory(out *resourceapi.Device, e Exposure) {
	out.AllowMultipleAllocations = new(true)
	out.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for _, k := range MemoryKinds() {
		n := *k.At(&d.Memory.Memory)
		if n == 0 {
			continue
		}
		out.Capacity[k.Capacity] = resourceapi.DeviceCapacity{Value: *amount(n), RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default: amount(0), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: amount(0), Max: amount(n), Step: amount(k.Page)},
		}}
		if e.NodeAllocatable {
			if out.NodeAllocatableResources == nil {
				out.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{}
			}
			out.NodeAllocatableResources[k.Resource] = resourceapi.NodeAllocatableResource{
				Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: new(k.Capacity), CapacityMultiplier: quantity(1)}}
		}
	}
}

func amount(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }

// memory takes what a result consumes of a NUMA node's memory. What is asked for has to
// be free there, whoever has allocated it: the scheduler's books aren't the only ones.
func (r *resolver) memory(result resourceapi.DeviceRequestAllocationResult, d Device) (*NodeMemory, error) {
	got := NodeMemory{Node: d.Memory.Node}
	some := false
	for _, k := range MemoryKinds() {
		q, ok := result.ConsumedCapacity[k.Capacity]
		if !ok {
			continue
		}
		n, whole := q.AsInt64()
		if !whole || n < 0 || n%k.Page != 0 {
			return nil, fmt.Errorf("it consumes %s of %s: only whole pages of %s can be given", q.String(), k.Capacity, amount(k.Page))
		}
		*k.At(&got.Memory) = n
		some = some || n > 0
		if err := r.left(k, d, n); err != nil {
			return nil, err
		}
	}
	if !some {
		return nil, fmt.Errorf("it asks for nothing: the request must name a capacity, %s, %s or %s", CapacityMemory, CapacityHugepages2Mi, CapacityHugepages1Gi)
	}
	return &got, nil
}

// left refuses more than there is, by the names of those who have the rest.
func (r *resolver) left(k MemoryKind, d Device, n int64) error {
	has, free := *k.At(&d.Memory.Memory), *k.At(&d.Memory.Memory)
	var holders []string
	for _, h := range r.held {
		for _, m := range h.Memory {
			if of := *k.At(&m.Memory); m.Node == d.Memory.Node && of > 0 {
				free -= of
				holders = append(holders, fmt.Sprintf("%s (%s)", h.Holder, amount(of)))
			}
		}
	}
	if n <= free {
		return nil
	}
	who := "nobody has any of it"
	if len(holders) > 0 {
		who = "the rest belongs to " + strings.Join(holders, ", ")
	}
	return fmt.Errorf("it consumes %s of %s, and NUMA node %d has %s free of %s: %s", amount(n), k.Capacity, d.Memory.Node, amount(max(free, 0)), amount(has), who)
}
