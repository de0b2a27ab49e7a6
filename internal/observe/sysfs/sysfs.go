// Package sysfs reads a machine's CPU topology from the kernel's /sys. The root
// is an argument, so that any machine can be read from a copy of its files.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
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
	r.isolated, _ = r.list(path.Join(cpuDir, "isolated"))
	for id := range online.All() {
		r.cpus = append(r.cpus, r.cpu(id))
	}
	r.findCores()
	r.findCaches()
	r.findTypes()
	return cpuset.Topology{CPUs: r.cpus, SMT: r.smt(), PCIeRoots: PCIeRoots(root), Memory: Memory(root)}, nil
}

type reader struct {
	root             fs.FS
	online, isolated cpuset.Set
	cpus             []cpuset.CPU
}

func (r *reader) text(name string) (string, bool) {
	data, err := fs.ReadFile(r.root, name)
	return strings.TrimSpace(string(data)), err == nil
}

// number reads a number that is not negative; anything else is unknown.
func (r *reader) number(name string) int {
	text, ok := r.text(name)
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
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

func (r *reader) cpu(id int) cpuset.CPU {
	at := path.Join(dir(id), "topology")
	c := cpuset.CPU{
		ID:       id,
		Socket:   r.number(path.Join(at, "physical_package_id")),
		Die:      r.number(path.Join(at, "die_id")),
		Cluster:  r.number(path.Join(at, "cluster_id")),
		CoreID:   r.number(path.Join(at, "core_id")),
		Capacity: r.number(path.Join(dir(id), "cpu_capacity")),
		NUMA:     r.node(id), Core: cpuset.Unknown, L2: cpuset.Unknown, L3: cpuset.Unknown,
		Isolated: r.isolated.Has(id),
	}
	if c.Cluster == noCluster {
		c.Cluster = cpuset.Unknown
	}
	return c
}

// node finds the link to the CPU's NUMA node.
func (r *reader) node(id int) int {
	entries, err := fs.ReadDir(r.root, dir(id))
	if err != nil {
		return cpuset.Unknown
	}
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), "node"); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 {
				return n
			}
		}
	}
	return cpuset.Unknown
}

// findCores gives each CPU the lowest online one of its core. The kernel's lists of
// siblings are right for any number of threads; without them two CPUs are of one
// core if all that the kernel says of its place is equal.
func (r *reader) findCores() {
	type place struct{ socket, die, cluster, core int }
	first := map[place]int{}
	for i, c := range r.cpus {
		r.cpus[i].Core = c.ID
		if s, ok := r.siblings(c.ID); ok {
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
		if s, ok := r.list(path.Join(dir(id), "topology", name)); ok {
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
