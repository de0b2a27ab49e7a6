package cpuset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// setLong sets a text that may be longer than the API allows: then as several
// attributes, the name with a number from 0 on, that are one text when put together.
// It is left out where a device has no room for so many.
func setLong(a attributes, name resourceapi.QualifiedName, s string) {
	if len(s) <= maxAttributeText {
		a[name] = text(s)
		return
	}
	parts := cut(s)
	if len(a)+len(parts) > maxAttributes {
		return
	}
	for i, p := range parts {
		a[name+resourceapi.QualifiedName(strconv.Itoa(i))] = text(p)
	}
}

// cut cuts a list after commas, so that each part can be read.
func cut(s string) []string {
	var out []string
	for len(s) > maxAttributeText {
		at := strings.LastIndexByte(s[:maxAttributeText], ',') + 1
		if at == 0 {
			at = maxAttributeText
		}
		out, s = append(out, s[:at]), s[at:]
	}
	return append(out, s)
}

// smtLayout says which CPUs are threads of one core, as "v1:0-15>32;64": the sets have
// the first thread of each core, and the number after each is from one thread to the
// next. It is empty where each core has one CPU, or where the numbers have no such order.
func smtLayout(cores []Group, cpus Set) string {
	type entry struct {
		stride int
		firsts Set
	}
	var entries []entry
	several := false
	for _, core := range cores {
		threads := core.CPUs.Intersect(cpus).List()
		if len(threads) == 0 {
			continue
		}
		stride := 0
		for i := 1; i < len(threads); i++ {
			if d := threads[i] - threads[i-1]; stride == 0 || d == stride {
				stride = d
			} else {
				return ""
			}
		}
		several = several || stride > 0
		i := slices.IndexFunc(entries, func(e entry) bool { return e.stride == stride })
		if i < 0 {
			i, entries = len(entries), append(entries, entry{stride: stride})
		}
		entries[i].firsts.add(threads[0])
	}
	if !several {
		return ""
	}
	var out []string
	for _, e := range entries {
		s := e.firsts.String()
		if e.stride > 0 {
			s += fmt.Sprintf(">%d", e.stride)
		}
		out = append(out, s)
	}
	return "v1:" + strings.Join(out, ";")
}

// Root is a PCIe root complex with the CPUs near to it.
type Root struct {
	Name string // as in pci0000:00
	CPUs Set
}

// rootsOf are the names of the PCIe roots near to some of the CPUs.
func (t Topology) rootsOf(cpus Set) []string {
	var out []string
	for _, r := range t.PCIeRoots {
		if r.CPUs.Overlaps(cpus) {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxListLength)]
}

const (
	pcieRoot = resourceapi.QualifiedName("resource.kubernetes.io/pcieRoot")
	// maxListLength is how many values the lists of a device may have together.
	maxListLength = 48
	// maxAttributes leaves room for the capacities and for what every device has.
	maxAttributes = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - 6
)
