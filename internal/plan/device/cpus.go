package device

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// DriverCPU is the CPU driver and its device class.
const DriverCPU = "dra.cpu"

// CapacityCPU is how many CPUs a device of the CPU driver's grouped mode has.
const CapacityCPU = resourcev1.QualifiedName(DriverCPU + "/cpu")

// CPUs are a machine's processors as Slurm counts them: Sockets alike, with
// CoresPerSocket cores of Threads threads.
type CPUs struct {
	Sockets, CoresPerSocket, Threads int
	// Cores are by Slurm's abstract numbers, socket by socket. One without CPUs
	// isn't there, or isn't for jobs.
	Cores []Core
	// Grouped says that the driver publishes groups of CPUs, of which a claim takes a number.
	Grouped bool
	pool    string
}

// Core is one core.
type Core struct {
	CPUs  []CPU
	place place
}

// CPU is one thread of a core.
type CPU struct {
	// ID is the kernel's number, -1 where the driver alone knows it.
	ID int
	// Device is what the driver publishes the CPU as, or the group that it is in.
	Device string
}

// Count returns how many CPUs jobs may use.
func (c *CPUs) Count() int {
	n := 0
	for _, core := range c.Cores {
		n += len(core.CPUs)
	}
	return n
}

// Reserved returns the CPUs that Slurm must keep from jobs, by its own numbers:
// what its even shape has more than the machine, or than its driver offers.
func (c *CPUs) Reserved() []int {
	var out []int
	for i, core := range c.Cores {
		for t := 0; t < c.Threads && len(core.CPUs) == 0; t++ {
			out = append(out, i*c.Threads+t)
		}
	}
	return out
}

// limit takes cores away from jobs, the lowest first, until no more than n CPUs
// are left: kubelet admits no more than the node's allocatable, and what the
// machine does for itself it does on the lowest CPUs.
func (c *CPUs) limit(n int) {
	for i := range c.Cores {
		if c.Count() <= n {
			return
		}
		c.Cores[i].CPUs = nil
	}
}

// rawCore is a core before Slurm numbers it.
type rawCore struct {
	Core
	socket, id int
	slow       bool
}

// cpusOf reads the pool of the CPU driver. The sentence is why it can't be used.
func cpusOf(p pool, node *corev1.Node) (*CPUs, string) {
	var cores []rawCore
	grouped := false
	for _, d := range p.devices {
		if _, ok := d.Capacity[CapacityCPU]; ok {
			grouped = true
		}
	}
	if grouped {
		var why string
		if cores, why = groupedCores(p, node); why != "" {
			return nil, why
		}
	} else {
		cores = singleCores(p)
	}
	cores = fastOnly(cores)
	if len(cores) == 0 {
		return nil, "the CPU driver publishes no CPU that can be used"
	}
	c := number(cores)
	c.Grouped, c.pool = grouped, p.name
	return c, ""
}

// singleCores reads one device for each CPU. A device without the ids is left out.
func singleCores(p pool) []rawCore {
	type key struct{ socket, core, alone int }
	cores := map[key]*rawCore{}
	for _, d := range p.devices {
		a := attributes{p.driver, d.Attributes}
		id, ok1 := a.number("cpuID")
		core, ok2 := a.number("physicalCoreID", "coreID")
		socket, ok3 := a.number("socketID")
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		k := key{socket, core, 0}
		if smt, ok := a.get("smtEnabled"); ok && smt.BoolValue != nil && !*smt.BoolValue {
			// Without threads, two CPUs of one core id are cores of two clusters.
			k.alone = id + 1
		}
		c := cores[k]
		if c == nil {
			c = &rawCore{socket: socket, id: core, slow: a.text("coreType") == "e-core"}
			c.place = placeOf(a)
			cores[k] = c
		}
		c.CPUs = append(c.CPUs, CPU{ID: id, Device: d.Name})
	}
	out := make([]rawCore, 0, len(cores))
	for _, c := range cores {
		slices.SortFunc(c.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b rawCore) int {
		return cmp.Or(cmp.Compare(a.socket, b.socket), cmp.Compare(a.id, b.id), cmp.Compare(a.CPUs[0].ID, b.CPUs[0].ID))
	})
	return out
}

// fastOnly leaves efficiency cores out where there are others, as slurmd does: a
// job's cores must be alike.
func fastOnly(cores []rawCore) []rawCore {
	if fast := slices.DeleteFunc(slices.Clone(cores), func(c rawCore) bool { return c.slow }); len(fast) > 0 {
		return fast
	}
	return cores
}

// number puts cores into Slurm's even shape.
func number(cores []rawCore) *CPUs {
	threads := map[int]int{}
	sockets := map[int][]rawCore{}
	for _, c := range cores {
		threads[len(c.CPUs)]++
	}
	c := &CPUs{}
	for n, count := range threads {
		if best := threads[c.Threads]; count > best || count == best && n > c.Threads {
			c.Threads = n
		}
	}
	for _, core := range cores {
		// A core that lacks a thread, which the driver keeps, can't be given whole.
		if len(core.CPUs) >= c.Threads {
			core.CPUs = core.CPUs[:c.Threads]
			sockets[core.socket] = append(sockets[core.socket], core)
		}
	}
	for _, in := range sockets {
		c.CoresPerSocket = max(c.CoresPerSocket, len(in))
	}
	c.Sockets = len(sockets)
	c.Cores = make([]Core, c.Sockets*c.CoresPerSocket)
	for s, id := range slices.Sorted(maps.Keys(sockets)) {
		for i, core := range sockets[id] {
			c.Cores[s*c.CoresPerSocket+i] = core.Core
		}
	}
	return c
}

// groupedCores reads one device for each group of CPUs.
func groupedCores(p pool, node *corev1.Node) ([]rawCore, string) {
	type group struct {
		device       string
		cores        [][]int
		place        place
		socket, numa int
	}
	var groups []group
	for _, d := range p.devices {
		a := attributes{p.driver, d.Attributes}
		capacity := d.Capacity[CapacityCPU].Value
		count := int(capacity.Value())
		if count < 1 || count >= maxID {
			continue
		}
		g := group{device: d.Name, place: placeOf(a)}
		g.socket, g.numa = max(g.place.socket, 0), max(g.place.numa, 0)
		var known bool
		if g.cores, known = groupLayout(a, count, node); !known && g.place.socket < 0 {
			return nil, fmt.Sprintf("device %s of the CPU driver stands for the whole machine and doesn't say which CPUs it has; "+
				"use a driver that publishes %s/cpuIDs, or one group for each NUMA node", d.Name, DriverCPU)
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.socket, b.socket), cmp.Compare(a.numa, b.numa), cmp.Compare(a.device, b.device))
	})
	var out []rawCore
	for _, g := range groups {
		for _, ids := range g.cores {
			c := rawCore{socket: g.socket, Core: Core{place: g.place}}
			for _, id := range ids {
				c.CPUs = append(c.CPUs, CPU{ID: id, Device: g.device})
			}
			out = append(out, c)
		}
	}
	return out, ""
}

// groupLayout returns the CPUs of each core of a group, and whether their ids are known.
func groupLayout(a attributes, count int, node *corev1.Node) ([][]int, bool) {
	smt, _ := a.get("smtEnabled")
	threads := 1
	if smt.BoolValue != nil && *smt.BoolValue && count%2 == 0 {
		threads = 2
	}
	ids, err := ParseSet(a.long("cpuIDs"))
	if err == nil && len(ids) == count {
		if cores := strides(a.long("smtLayout"), ids); cores != nil {
			return cores, true
		}
		return paired(ids, threads), true
	}
	ids = make([]int, count)
	capacity := node.Status.Capacity[corev1.ResourceCPU]
	known := placeOf(a).socket < 0 && capacity.Value() == int64(count)
	for i := range ids {
		// A group that has all CPUs of the machine has them from 0 on.
		if ids[i] = -1; known {
			ids[i] = i
		}
	}
	return paired(ids, threads), known
}

// paired makes cores of two threads as Linux numbers them: all first threads, then all second ones.
func paired(ids []int, threads int) [][]int {
	n := len(ids) / threads
	out := make([][]int, n)
	for i, id := range ids {
		out[i%n] = append(out[i%n], id)
	}
	return out
}

// strides reads how threads are numbered, as "v1:0-31>32": the sets have the first
// threads, and the number after each is from one thread to the next. A core ends where
// another begins. It returns nil for what it can't read.
func strides(layout string, ids []int) [][]int {
	_, text, ok := strings.Cut(layout, ":")
	if !ok {
		return nil
	}
	have, begins := map[int]bool{}, map[int]bool{}
	for _, id := range ids {
		have[id] = true
	}
	type entry struct {
		firsts []int
		step   int
	}
	var entries []entry
	for part := range strings.SplitSeq(text, ";") {
		set, stride, threaded := strings.Cut(part, ">")
		firsts, err := ParseSet(set)
		if err != nil {
			return nil
		}
		step := 0
		if threaded {
			if _, err := fmt.Sscanf(stride, "%d", &step); err != nil || step < 1 {
				return nil
			}
		}
		for _, first := range firsts {
			begins[first] = true
		}
		entries = append(entries, entry{firsts, step})
	}
	var out [][]int
	for _, e := range entries {
		for _, first := range e.firsts {
			var core []int
			for id := first; have[id] && (id == first || !begins[id]); id += e.step {
				core = append(core, id)
				delete(have, id)
			}
			if len(core) > 0 {
				out = append(out, core)
			}
		}
	}
	if len(have) > 0 {
		return nil
	}
	return out
}
