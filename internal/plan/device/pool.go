// Package device knows the devices of a Kubernetes node: what its drivers publish
// in ResourceSlices, in which order Slurm counts it, and which devices a pod gets
// of what Slurm granted. It is pure.
package device

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// pool is what one driver publishes of one node, all slices together.
type pool struct {
	driver, name string
	devices      []resourcev1.Device
	// counters are what devices that are parts of one another share.
	counters []resourcev1.CounterSet
	// whole is false while slices of the newest generation are missing.
	whole bool
}

// poolsOf merges the slices of a node by pool. Only the newest generation of a pool
// counts: a driver that publishes anew leaves older slices behind for a moment.
// Pools and their devices come in a fixed order.
func poolsOf(node string, all []*resourcev1.ResourceSlice) []pool {
	type key struct{ driver, name string }
	newest := map[key][]*resourcev1.ResourceSlice{}
	for _, s := range all {
		k := key{s.Spec.Driver, s.Spec.Pool.Name}
		have := newest[k]
		switch {
		case len(have) > 0 && have[0].Spec.Pool.Generation > s.Spec.Pool.Generation:
		case len(have) > 0 && have[0].Spec.Pool.Generation == s.Spec.Pool.Generation:
			newest[k] = append(have, s)
		default:
			newest[k] = []*resourcev1.ResourceSlice{s}
		}
	}
	var out []pool
	for k, parts := range newest {
		p := pool{driver: k.driver, name: k.name, whole: int64(len(parts)) == parts[0].Spec.Pool.ResourceSliceCount}
		slices.SortFunc(parts, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		seen := map[string]bool{}
		for _, s := range parts {
			p.counters = append(p.counters, s.Spec.SharedCounters...)
			for _, d := range s.Spec.Devices {
				if on(node, s, d) && !seen[d.Name] {
					seen[d.Name] = true
					p.devices = append(p.devices, d)
				}
			}
		}
		if len(p.devices) > 0 || !p.whole {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b pool) int {
		return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.name, b.name))
	})
	return out
}

// on tells whether a device of a slice belongs to one node alone, and that node is it.
func on(node string, s *resourcev1.ResourceSlice, d resourcev1.Device) bool {
	if s.Spec.NodeName != nil {
		return *s.Spec.NodeName == node
	}
	return d.NodeName != nil && *d.NodeName == node
}

// NodesOf returns the nodes that a slice is about.
func NodesOf(s *resourcev1.ResourceSlice) []string {
	if s.Spec.NodeName != nil {
		return []string{*s.Spec.NodeName}
	}
	var out []string
	for _, d := range s.Spec.Devices {
		if d.NodeName != nil {
			out = append(out, *d.NodeName)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// attributes are a device's, by name. Those of the driver may be written with its domain or without.
type attributes struct {
	driver string
	of     map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
}

func (a attributes) get(name string) (resourcev1.DeviceAttribute, bool) {
	if v, ok := a.of[resourcev1.QualifiedName(a.driver+"/"+name)]; ok {
		return v, true
	}
	v, ok := a.of[resourcev1.QualifiedName(name)]
	return v, ok
}

// number returns the first of the named attributes that is a number which can be an id.
func (a attributes) number(names ...string) (int, bool) {
	for _, name := range names {
		if v, ok := a.get(name); ok && v.IntValue != nil && *v.IntValue >= 0 && *v.IntValue < maxID {
			return int(*v.IntValue), true
		}
	}
	return 0, false
}

// maxID bounds ids of CPUs, cores, sockets and devices; no machine has as many.
const maxID = 1 << 16

// text returns a string attribute.
func (a attributes) text(name string) string {
	if v, ok := a.get(name); ok && v.StringValue != nil {
		return *v.StringValue
	}
	return ""
}

// texts returns an attribute that is a string or a list of strings.
func (a attributes) texts(name string) []string {
	v, ok := a.get(name)
	switch {
	case !ok:
		return nil
	case v.StringValue != nil:
		return []string{*v.StringValue}
	}
	return v.StringValues
}

// Attributes by which drivers say where a device is.
const (
	attributePCIeRoot = "resource.kubernetes.io/pcieRoot"
	attributeNUMA     = "resource.kubernetes.io/numaNode"
)

// place is where in the machine a device is, as far as its driver says; -1 is unknown.
type place struct {
	numa, socket int
	roots        []string
}

func placeOf(a attributes) place {
	p := place{numa: -1, socket: -1, roots: a.texts(attributePCIeRoot)}
	if n, ok := a.number(attributeNUMA, "dra.net/numaNode", "numaNodeID", "numaNode", "numa"); ok {
		p.numa = n
	}
	if n, ok := a.number("socketID"); ok {
		p.socket = n
	}
	return p
}
