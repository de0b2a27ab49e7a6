package device

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Drivers are the DRA drivers whose devices are Slurm's generic resources, each
// with the name of the resource, as "gpu". "gpu:model" divides the devices into types by
// their attribute of that name; all are of one type, the driver, without it.
type Drivers map[string]string

// Kind returns the name of the resource that a driver's devices are, false for a driver
// that Slurm knows nothing of.
func (d Drivers) Kind(driver string) (string, bool) {
	kind, ok := d[driver]
	kind, _, _ = strings.Cut(kind, ":")
	return kind, ok
}

// divides returns the attribute that makes types of a driver's devices, "" for none.
func (d Drivers) divides(driver string) string {
	_, attribute, _ := strings.Cut(d[driver], ":")
	return attribute
}

// Drivers of GPUs that are known. A class of a driver bears its name.
const (
	DriverNVIDIA  = "gpu.nvidia.com"
	DriverExample = "gpu.example.com"
)

// Known are the drivers that are served without configuration.
func Known() Drivers { return Drivers{DriverNVIDIA: "gpu", DriverExample: "gpu"} }

// Resource is the devices of one type of a generic resource on a node.
type Resource struct {
	// Name and Type are Slurm's: the type of a driver's devices is the driver, but for
	// parts of a GPU and where an attribute makes types.
	Name, Type string
	// Count is how many there are. Where kubelet's device plugin hands them out, Devices is empty.
	Count        int
	Devices      []Device
	driver, pool string
}

// Device is one device. Its place in a Resource's list is its index in Slurm.
type Device struct {
	Name string
	// First and Last are the abstract numbers of the cores near it, -1 where that isn't known.
	First, Last int
	index       int
	place       place
}

var nvidiaName = regexp.MustCompile(`^gpu-(0|[1-9][0-9]{0,4})$`)

// resourcesOf reads the pool of a driver: a resource for each type of device, the one
// that bears the driver's name first. Devices that can't be numbered are left out.
func resourcesOf(p pool, drivers Drivers, cpus *CPUs) []Resource {
	name, _ := drivers.Kind(p.driver)
	types := map[string]*Resource{}
	for _, d := range p.devices {
		a := attributes{p.driver, d.Attributes}
		index, ok := a.number("index")
		kind := typeOf(p.driver, drivers.divides(p.driver), a)
		if p.driver == DriverNVIDIA && kind == p.driver {
			m := nvidiaName.FindStringSubmatch(d.Name)
			if m == nil {
				continue
			}
			index, _ = strconv.Atoi(m[1])
		} else if !ok {
			_, index = numbered(d.Name)
		}
		dev := Device{Name: d.Name, index: index, place: placeOf(a)}
		dev.First, dev.Last = near(dev.place, cpus)
		if types[kind] == nil {
			types[kind] = &Resource{Name: name, Type: kind, driver: p.driver, pool: p.name}
		}
		types[kind].Devices = append(types[kind].Devices, dev)
	}
	var out []Resource
	for _, r := range types {
		slices.SortFunc(r.Devices, func(a, b Device) int {
			return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.Name, b.Name))
		})
		r.Count = len(r.Devices)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Resource) int {
		if own := a.Type == p.driver; own != (b.Type == p.driver) {
			return map[bool]int{true: -1, false: 1}[own]
		}
		return cmp.Compare(a.Type, b.Type)
	})
	return out
}

var unprintable = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// typeOf returns the type of a device in Slurm.
func typeOf(driver, divides string, a attributes) string {
	if a.text("type") == "mig" && a.text("profile") != "" {
		return "mig-" + unprintable.ReplaceAllString(a.text("profile"), "_")
	}
	if divides != "" {
		if word := unprintable.ReplaceAllString(a.text(divides), "_"); wordPattern.MatchString(word) {
			return word
		}
	}
	return driver
}

// near returns the first and the last core near a place: those of its PCIe root,
// else of its NUMA node, else of its socket. Slurm takes one range for a device.
func near(p place, cpus *CPUs) (first, last int) {
	if cpus == nil {
		return -1, -1
	}
	for _, is := range []func(place) bool{
		func(c place) bool {
			return slices.ContainsFunc(p.roots, func(r string) bool { return slices.Contains(c.roots, r) })
		},
		func(c place) bool { return p.numa >= 0 && c.numa == p.numa },
		func(c place) bool { return p.socket >= 0 && c.socket == p.socket },
	} {
		first, last = -1, -1
		for i, core := range cpus.Cores {
			if len(core.CPUs) > 0 && is(core.place) {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		if first >= 0 {
			return first, last
		}
	}
	return -1, -1
}

type plugin struct{ resource, driver, label string }

// plugins are the extended resources of device plugins that count as Slurm's gpu,
// with the driver that publishes the same devices where it is used instead, and
// the node's label for their model.
var plugins = []plugin{
	{"nvidia.com/gpu", DriverNVIDIA, "nvidia.com/gpu.product"},
	{"amd.com/gpu", "gpu.amd.com", "amd.com/gpu.product-name"},
}

var wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// pluginResources reads what device plugins offer on a node.
func pluginResources(node *corev1.Node, have []Resource) []Resource {
	var out []Resource
	for _, p := range plugins {
		q := node.Status.Allocatable[corev1.ResourceName(p.resource)]
		n := q.Value()
		if n < 1 || n >= maxID || slices.ContainsFunc(have, func(r Resource) bool { return r.driver == p.driver }) {
			continue
		}
		r := Resource{Name: "gpu", Count: int(n)}
		if model := node.Labels[p.label]; wordPattern.MatchString(model) {
			r.Type = model
		}
		out = append(out, r)
	}
	return out
}

// GRES returns what a node is registered with in Slurm, as its Gres and its GresConf.
func GRES(resources []Resource) (gres, conf string) {
	var counts, records []string
	for _, r := range resources {
		text := r.Name
		head := "name=" + r.Name
		if r.Type != "" {
			text += ":" + r.Type
			head += ",type=" + r.Type
		}
		counts = append(counts, text+":"+strconv.Itoa(r.Count))
		if len(r.Devices) == 0 {
			records = append(records, fmt.Sprintf("count=%d,%s", r.Count, head))
		}
		for _, run := range runs(r.Devices) {
			records = append(records, record(run, head))
		}
	}
	return strings.Join(counts, ","), strings.Join(records, "+")
}

func record(run []Device, head string) string {
	prefix, first := numbered(run[0].Name)
	file := run[0].Name
	if len(run) > 1 {
		file = fmt.Sprintf("%s[%d-%d]", prefix, first, first+len(run)-1)
	}
	text := fmt.Sprintf("count=%d,%s,file=%s", len(run), head, file)
	if run[0].First >= 0 {
		text += fmt.Sprintf(",cpus=%d-%d", run[0].First, run[0].Last)
	}
	return text
}

// runs cuts devices into those that one record of GresConf can hold: numbered one
// after the other, and near the same cores.
func runs(devices []Device) [][]Device {
	var out [][]Device
	for i, d := range devices {
		if i > 0 {
			before := devices[i-1]
			prefix, n := numbered(d.Name)
			last, m := numbered(before.Name)
			if n == m+1 && m >= 0 && prefix == last && d.First == before.First && d.Last == before.Last {
				out[len(out)-1] = append(out[len(out)-1], d)
				continue
			}
		}
		out = append(out, []Device{d})
	}
	return out
}

var trailingNumber = regexp.MustCompile(`^(.*?)(0|[1-9][0-9]{0,4})$`)

// numbered splits a name into what is before the number at its end, and the
// number; -1 where there is none that prints as it was.
func numbered(name string) (string, int) {
	m := trailingNumber.FindStringSubmatch(name)
	if m == nil || strings.HasSuffix(m[1], "0") {
		return name, -1
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return name, -1
	}
	return m[1], n
}

// sortedDrivers returns the names of drivers in a fixed order.
func (d Drivers) sortedDrivers() []string { return slices.Sorted(maps.Keys(d)) }
