package cpuset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The names of the driver's contract.
const (
	DriverName  = "dra.cpu"
	CapacityCPU = resourceapi.QualifiedName(DriverName + "/cpu")

	numaNode       = resourceapi.QualifiedName("resource.kubernetes.io/numaNode")
	numaNodeDranet = resourceapi.QualifiedName("dra.net/numaNode")

	maxAttributeText = resourceapi.DeviceAttributeMaxValueLength
)

// Mode says what a device is.
type Mode string

// GroupBy says what a device of the grouped mode is.
type GroupBy string

// The modes and groups.
const (
	Individual Mode = "individual"
	Grouped    Mode = "grouped"

	ByNUMANode GroupBy = "numanode"
	BySocket   GroupBy = "socket"
	ByL3Cache  GroupBy = "l3cache"
	ByCoreType GroupBy = "coretype"
	ByMachine  GroupBy = "machine"
)

// Groupings lists the groups.
func Groupings() []GroupBy {
	return []GroupBy{ByNUMANode, BySocket, ByL3Cache, ByCoreType, ByMachine}
}

// Exposure is how a machine's CPUs are offered.
type Exposure struct {
	Mode    Mode
	GroupBy GroupBy
	// Reserved CPUs are offered to nobody.
	Reserved Set
	// NodeAllocatable makes the scheduler subtract what claims take from the node's cpu.
	NodeAllocatable bool
	// WholeCores offers only cores of which each thread can be claimed, and gives them out whole.
	WholeCores bool
	// Named: a claim must name its CPUs; the driver chooses none.
	Named bool
	// PCIeRoots adds the PCIe roots that are near to a device.
	PCIeRoots bool
	// Memory offers the NUMA nodes' memory, too, less ReservedMemory bytes of each.
	Memory         bool
	ReservedMemory int64
}

// Device is one DRA device.
type Device struct {
	Name string
	// CPUs are those that the device can give.
	CPUs Set
	// Step is what the number of CPUs of a claim is a multiple of; 0 and 1 are any number.
	Step int
	// Memory is what it has if it is a NUMA node's memory; then it has no CPUs.
	Memory     *NodeMemory
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
}

// Devices describes the machine. Names depend on the machine alone, so that a
// claim means the same CPUs when the reserved ones change.
func Devices(t Topology, e Exposure) []Device {
	out := grouped(t, e)
	if e.Mode == Individual {
		out = individual(t, e)
	}
	for _, d := range out {
		if roots := t.rootsOf(d.CPUs); e.PCIeRoots && len(roots) > 0 {
			d.Attributes[pcieRoot] = resourceapi.DeviceAttribute{StringValues: roots}
		}
	}
	return append(out, memoryDevices(t, e)...)
}

func grouped(t Topology, e Exposure) []Device {
	allocatable, cores := t.All().Minus(e.Reserved), t.GroupBy(byCore)
	if e.WholeCores {
		allocatable = wholeOf(cores, allocatable)
	}
	var out []Device
	add := func(name string, cpus Set, more map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
		if cpus = cpus.Intersect(allocatable); cpus.Empty() {
			return
		}
		more["dra.cpu/smtEnabled"] = boolean(t.SMT)
		more["dra.cpu/numCPUs"] = number(cpus.Len())
		if layout := smtLayout(cores, cpus); layout != "" {
			setLong(more, "dra.cpu/smtLayout", layout)
		}
		setLong(more, "dra.cpu/cpuIDs", cpus.String())
		d := Device{Name: name, CPUs: cpus, Attributes: more, Step: 1}
		if e.WholeCores {
			d.Step = threads(cores, cpus)
		}
		out = append(out, d)
	}
	switch e.GroupBy {
	case ByMachine:
		add("cpudevmachine", t.All(), attributes{})
	case BySocket:
		for _, g := range t.GroupBy(bySocket) {
			add(fmt.Sprintf("cpudevsocket%03d", g.ID), g.CPUs, t.common(g.CPUs, false))
		}
	case ByL3Cache:
		for _, g := range t.GroupBy(byL3) {
			if g.ID >= 0 {
				more := t.common(g.CPUs, true)
				more["dra.cpu/cacheL3ID"] = number(g.ID)
				add(fmt.Sprintf("cpudevl3cache%03d", g.ID), g.CPUs, more)
			}
		}
	case ByCoreType:
		for _, g := range t.GroupBy(byNUMA) {
			for _, kind := range []CoreType{Performance, Efficiency, Standard} {
				more := t.common(g.CPUs, true)
				more["dra.cpu/coreType"] = text(string(kind))
				add(fmt.Sprintf("cpudev%s%03d", strings.ReplaceAll(string(kind), "-", ""), g.ID), t.ofType(g.CPUs, kind), more)
			}
		}
	default:
		for _, g := range t.GroupBy(byNUMA) {
			add(fmt.Sprintf("cpudevnuma%03d", g.ID), g.CPUs, t.common(g.CPUs, true))
		}
	}
	return out
}

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// common are the attributes of where a group is, as its first CPU says.
func (t Topology) common(cpus Set, numa bool) attributes {
	a := attributes{}
	c, ok := t.CPU(cpus.First())
	if !ok {
		return a
	}
	setKnown(a, "dra.cpu/socketID", c.Socket)
	if numa {
		setNUMA(a, c.NUMA)
	}
	return a
}

// setNUMA sets the standard name and the two older ones. A machine that doesn't
// speak of NUMA has none of them: two unknowns must not match.
func setNUMA(a attributes, node int) {
	for _, name := range []resourceapi.QualifiedName{numaNode, numaNodeDranet, "dra.cpu/numaNodeID"} {
		setKnown(a, name, node)
	}
}

func setKnown(a attributes, name resourceapi.QualifiedName, n int) {
	if n >= 0 {
		a[name] = number(n)
	}
}

// individual makes a device of each CPU. They are numbered core by core: a
// scheduler that takes the first that fit then hands out whole cores.
func individual(t Topology, e Exposure) []Device {
	var out []Device
	n := 0
	for _, core := range t.GroupBy(byCore) {
		for id := range core.CPUs.All() {
			if c, _ := t.CPU(id); !e.Reserved.Has(id) {
				out = append(out, Device{Name: fmt.Sprintf("cpudev%03d", n), CPUs: Of(id), Attributes: t.oneCPU(c)})
			}
			n++
		}
	}
	return out
}

func (t Topology) oneCPU(c CPU) attributes {
	a := attributes{
		"dra.cpu/cpuID": number(c.ID), "dra.cpu/smtEnabled": boolean(t.SMT), "dra.cpu/coreType": text(string(c.Type)),
		"dra.cpu/physicalCoreID": number(c.Core),
	}
	setNUMA(a, c.NUMA)
	for name, n := range map[resourceapi.QualifiedName]int{
		"dra.cpu/socketID": c.Socket, "dra.cpu/coreID": c.CoreID, "dra.cpu/cacheL3ID": c.L3, "dra.cpu/cacheL2ID": c.L2,
		"dra.cpu/dieID": c.Die, "dra.cpu/clusterID": c.Cluster,
	} {
		setKnown(a, name, n)
	}
	if c.Isolated {
		a["dra.cpu/isolated"] = boolean(true)
	}
	return a
}

// Describe is the device as the API has it.
func (d Device) Describe(e Exposure) resourceapi.Device {
	out := resourceapi.Device{Name: d.Name, Attributes: d.Attributes}
	if d.Memory != nil {
		d.describeMemory(&out, e)
		return out
	}
	if e.Mode != Individual {
		out.AllowMultipleAllocations = new(true)
		out.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			CapacityCPU: {Value: *quantity(d.CPUs.Len()), RequestPolicy: wholeCPUs(d.CPUs.Len(), max(d.Step, 1))},
		}
	}
	if e.NodeAllocatable {
		out.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{corev1.ResourceCPU: {Mapping: mapping(e)}}
	}
	return out
}

// wholeCPUs lets the scheduler round a request up to whole CPUs, or cores of step CPUs. One that names
// no number takes the whole device, as it would without a policy.
func wholeCPUs(n, step int) *resourceapi.CapacityRequestPolicy {
	valid := &resourceapi.CapacityRequestPolicyRange{Min: quantity(step), Max: quantity(n)}
	if 2*step <= n { // A step must fit between the least and the most.
		valid.Step = quantity(step)
	}
	return &resourceapi.CapacityRequestPolicy{Default: quantity(n), ValidRange: valid}
}

func mapping(e Exposure) *resourceapi.NodeAllocatableMapping {
	if e.Mode == Individual {
		return &resourceapi.NodeAllocatableMapping{DeviceMultiplier: quantity(1)}
	}
	return &resourceapi.NodeAllocatableMapping{CapacityKey: new(CapacityCPU), CapacityMultiplier: quantity(1)}
}

// Slices cuts the devices into as many lists as the API's limit makes necessary.
func Slices(devices []Device, e Exposure) [][]resourceapi.Device {
	var out [][]resourceapi.Device
	most := resourceapi.ResourceSliceMaxDevices
	if e.PCIeRoots { // lists count more
		most = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	for chunk := range slices.Chunk(devices, most) {
		list := make([]resourceapi.Device, 0, len(chunk))
		for _, d := range chunk {
			list = append(list, d.Describe(e))
		}
		out = append(out, list)
	}
	return out
}

func number(n int) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: new(int64(n))}
}
func boolean(b bool) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{BoolValue: new(b)}
}
func text(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: new(s)}
}
func quantity(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }
