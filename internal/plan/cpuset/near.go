package cpuset

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// NearDevices are the CPUs near to the devices of other drivers that a claim has, as these drivers' slices say.
func (t Topology) NearDevices(claim *resourceapi.ResourceClaim, published []resourceapi.ResourceSlice) Set {
	var out Set
	if claim.Status.Allocation == nil {
		return out
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver == DriverName {
			continue
		}
		var newest *resourceapi.Device
		generation := int64(-1)
		for _, s := range published {
			if s.Spec.Driver != result.Driver || s.Spec.Pool.Name != result.Pool || s.Spec.Pool.Generation <= generation {
				continue
			}
			if i := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == result.Device }); i >= 0 {
				newest, generation = &s.Spec.Devices[i], s.Spec.Pool.Generation
			}
		}
		if newest != nil {
			out = out.Union(t.nearTo(whereIs(*newest)))
		}
	}
	return out
}

// whereIs is what a device says of its place, by the standard names and an older one.
func whereIs(d resourceapi.Device) (roots []string, node int) {
	node = Unknown
	if a := d.Attributes[pcieRoot]; a.StringValue != nil {
		roots = []string{*a.StringValue}
	} else {
		roots = a.StringValues
	}
	for _, name := range []resourceapi.QualifiedName{numaNodeDranet, numaNode} {
		if a := d.Attributes[name]; a.IntValue != nil {
			node = int(*a.IntValue)
		}
	}
	return roots, node
}

// nearTo are the CPUs of the PCIe roots, or else of the NUMA node.
func (t Topology) nearTo(roots []string, node int) Set {
	var out Set
	for _, r := range t.PCIeRoots {
		if slices.Contains(roots, r.Name) {
			out = out.Union(r.CPUs)
		}
	}
	if !out.Empty() {
		return out
	}
	for _, c := range t.CPUs {
		if node >= 0 && c.NUMA == node {
			out.add(c.ID)
		}
	}
	return out
}
