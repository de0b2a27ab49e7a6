// Package sysfs reads a machine's CPU topology from the kernel's /sys. The root
// is an argument, so that any machine can be read from a copy of its files.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

const (
	cpuDir    = "devices/system/cpu"
	atomFile  = "devices/cpu_atom/cpus"
	noCluster = 65535 // what some kernels say instead of nothing
)

// Online reads the set of the CPUs that run.
func Online(root fs.FS) (cpuset.Set, error) {
	text, err := fs.ReadFile(root, path.Join(cpuDir, "online"))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read which CPUs are online: %w", err)
	}
	online, err := cpuset.Parse(string(text))
	if err == nil && online.Empty() {
		err = errors.New("the list is empty")
	}
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read /sys/%s/online: %w", cpuDir, err)
	}
	return online, nil
}

// Read reads the topology of the online CPUs. Only the list of online CPUs must be
// there: what else the kernel doesn't tell stays unknown, as in virtual machines
// without caches and kernels without NUMA.
func Read(root fs.FS) (cpuset.Topology, error) {
	online, err := Online(root)
	if err != nil {
		return cpuset.Topology{}, err
	}
	r := reader{root: root, online: online}
	_, r.laidOver = root.(overlay)
	isolated, _ := r.list(path.Join(cpuDir, "isolated"))
	for id := range online.All() {
		r.cpus = append(r.cpus, cpuset.CPU{
			ID: id, Socket: cpuset.Unknown, NUMA: cpuset.Unknown, Die: cpuset.Unknown, Cluster: cpuset.Unknown, CoreID: cpuset.Unknown,
			Core: cpuset.Unknown, L2: cpuset.Unknown, L3: cpuset.Unknown, Capacity: cpuset.Unknown, Isolated: isolated.Has(id),
		})
	}
	r.findPlaces()
	r.findCores()
	r.findNodes()
	r.findCaches()
	r.findTypes()
	return cpuset.Topology{CPUs: r.cpus, SMT: r.smt(), PCIeRoots: PCIeRoots(root), Memory: Memory(root)}, nil
}

// A machine has hundreds of CPUs and tells ten things of each, and opening a file is what takes the time. So of what
// CPUs have in common, as those of a core or a socket do, one of them is asked, and for whom it speaks.
type reader struct {
	root   fs.FS
	online cpuset.Set
	cpus   []cpuset.CPU
	// threads are the online CPUs of each one's core, where the kernel lists them.
	threads map[int]cpuset.Set
	// laidOver: some files are others than the kernel's, and needn't fit those that are not. So each CPU is asked itself.
	laidOver bool
}

func (r *reader) text(name string) (string, bool) {
	data, err := fs.ReadFile(r.root, name)
	return strings.TrimSpace(string(data)), err == nil
}

func (r *reader) number(name string) int {
	text, _ := r.text(name)
	return number(text)
}

// number is a number that is not negative; anything else is unknown.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return cpuset.Unknown
	}
	return n
}

func (r *reader) list(name string) (cpuset.Set, bool) {
	text, ok := r.text(name)
	if !ok {
		return cpuset.Set{}, false
	}
	s, err := cpuset.Parse(text)
	return s, err == nil && !s.Empty()
}

func dir(id int) string { return path.Join(cpuDir, "cpu"+strconv.Itoa(id)) }

func topology(id int, name string) string { return path.Join(dir(id), "topology", name) }

// findPlaces reads where the CPUs are on the machine.
func (r *reader) findPlaces() {
	r.findThreads()
	listed := func(name string) func(int) cpuset.Set {
		return func(id int) cpuset.Set {
			s, _ := r.list(topology(id, name))
			return s
		}
	}
	r.numbers("topology/physical_package_id", listed("package_cpus_list"), func(c *cpuset.CPU, n int) { c.Socket = n })
	r.numbers("topology/die_id", listed("die_cpus_list"), func(c *cpuset.CPU, n int) { c.Die = n })
	r.numbers("topology/cluster_id", listed("cluster_cpus_list"), func(c *cpuset.CPU, n int) {
		if c.Cluster = n; n == noCluster {
			c.Cluster = cpuset.Unknown
		}
	})
	r.numbers("topology/core_id", func(id int) cpuset.Set { return r.threads[id] }, func(c *cpuset.CPU, n int) { c.CoreID = n })
	alone := func(int) cpuset.Set { return cpuset.Set{} }
	r.numbers("cpu_capacity", alone, func(c *cpuset.CPU, n int) { c.Capacity = n })
}

// numbers reads a number of each CPU; same says which CPUs have the same one. A kernel that doesn't tell it of the first
// CPU tells it of none, and one whose list has only that CPU isn't asked for others.
func (r *reader) numbers(file string, same func(id int) cpuset.Set, set func(c *cpuset.CPU, n int)) {
	read, ask := map[int]int{}, !r.laidOver
	for i := range r.cpus {
		c := &r.cpus[i]
		n, have := read[c.ID]
		if !have {
			text, there := r.text(path.Join(dir(c.ID), file))
			if !there && i == 0 && !r.laidOver {
				return
			}
			n = number(text)
			if ask {
				s := same(c.ID)
				ask = s.Len() > 1
				for id := range s.All() {
					if _, have := read[id]; !have {
						read[id] = n
					}
				}
			}
		}
		set(c, n)
	}
}

// findThreads reads which CPUs are of one core. The lists are right for any number of threads.
func (r *reader) findThreads() {
	r.threads = map[int]cpuset.Set{}
	for _, c := range r.cpus {
		if _, known := r.threads[c.ID]; known {
			continue
		}
		s, ok := r.siblings(c.ID)
		if !ok {
			continue
		}
		r.threads[c.ID] = s
		if r.laidOver {
			continue
		}
		for id := range s.All() {
			r.threads[id] = s
		}
	}
}

// findNodes reads which NUMA node each CPU is of: from the nodes' own lists, or by the CPU's link to its node.
func (r *reader) findNodes() {
	of := map[int]int{}
	if !r.laidOver {
		for _, n := range nodes(r.root) {
			cpus, _ := r.list(path.Join(nodeDir, "node"+strconv.Itoa(n), "cpulist"))
			for id := range cpus.All() {
				of[id] = n
			}
		}
	}
	for i, c := range r.cpus {
		n, listed := of[c.ID]
		if !listed {
			n = r.node(c.ID)
		}
		r.cpus[i].NUMA = n
	}
}

// node finds the link to the CPU's NUMA node.
func (r *reader) node(id int) int {
	for _, n := range numbered(r.root, dir(id), "node") {
		return n
	}
	return cpuset.Unknown
}

// nodes lists the machine's NUMA nodes.
func nodes(root fs.FS) []int { return numbered(root, nodeDir, "node") }

// numbered lists the numbers of the entries of a folder that are named by a word and a number, sorted.
func numbered(root fs.FS, dir, word string) []int {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), word); ok {
			if n := number(digits); n >= 0 && n < cpuset.MaxCPUs {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// findCores gives each CPU the lowest online one of its core. Where the kernel lists no threads, two CPUs are of one
// core if all that it says of their places is equal.
func (r *reader) findCores() {
	type place struct{ socket, die, cluster, core int }
	first := map[place]int{}
	for i, c := range r.cpus {
		r.cpus[i].Core = c.ID
		if s, ok := r.threads[c.ID]; ok {
			r.cpus[i].Core = s.First()
			continue
		}
		if c.CoreID < 0 {
			continue
		}
		p := place{c.Socket, c.Die, c.Cluster, c.CoreID}
		if _, seen := first[p]; !seen {
			first[p] = c.ID
		}
		r.cpus[i].Core = first[p]
	}
}

func (r *reader) siblings(id int) (cpuset.Set, bool) {
	for _, name := range []string{"core_cpus_list", "thread_siblings_list"} {
		if s, ok := r.list(topology(id, name)); ok {
			s = s.Intersect(r.online)
			return s, s.Has(id)
		}
	}
	return cpuset.Set{}, false
}

// findTypes tells strong from weak cores: by Intel's list of its Atom cores, else
// by the kernel's capacities, as big.LITTLE machines have them.
func (r *reader) findTypes() {
	weak, hybrid := r.list(atomFile)
	strongest := 0
	for _, c := range r.cpus {
		strongest = max(strongest, c.Capacity)
	}
	if !hybrid {
		for _, c := range r.cpus {
			// Less than four fifths of the strongest: the kernel's own margin.
			if c.Capacity > 0 && c.Capacity*5 < strongest*4 {
				weak, hybrid = weak.Union(cpuset.Of(c.ID)), true
			}
		}
	}
	for i, c := range r.cpus {
		switch {
		case !hybrid:
			r.cpus[i].Type = cpuset.Standard
		case weak.Has(c.ID):
			r.cpus[i].Type = cpuset.Efficiency
		default:
			r.cpus[i].Type = cpuset.Performance
		}
	}
}

func (r *reader) smt() bool {
	control, _ := r.text(path.Join(cpuDir, "smt/control"))
	switch control {
	case "on":
		return true
	case "off", "forceoff", "notsupported", "notimplemented":
		return false
	}
	for _, c := range r.cpus {
		if c.Core != c.ID {
			return true
		}
	}
	return false
}
