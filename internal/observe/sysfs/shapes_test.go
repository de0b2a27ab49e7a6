package sysfs

import (
	"fmt"
	"testing/fstest"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// model describes the files of a machine; a function that is nil leaves its file out.
type model struct {
	name                                               string
	cpus                                               []int // online
	files                                              map[string]string
	socket, die, cluster, core, node, l2, l3, capacity func(id int) int
	// threads lists the CPUs of the same core, l2cpus and l3cpus those of the same cache.
	threads, l2cpus, l3cpus func(id int) string
	noCacheID               bool
	// noLists: an old kernel, or one of a virtual machine, that doesn't say which CPUs a socket or a node has.
	noLists bool
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// tree is a file system of these files. fstest.MapFS looks through all of them for each folder.
type tree struct{ overlay }

func (m model) fs() tree {
	out := tree{overlay{FS: fstest.MapFS{}, files: map[string]string{}, dirs: map[string]map[string]bool{}}}
	put := func(name, content string) { out.put(name, content+"\n") }
	list := ""
	for i, id := range m.cpus {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprint(id)
	}
	put("devices/system/cpu/online", list)
	for name, content := range m.files {
		put(name, content)
	}
	for _, id := range m.cpus {
		at := fmt.Sprintf("devices/system/cpu/cpu%d/", id)
		for name, f := range map[string]func(int) int{
			"topology/physical_package_id": m.socket, "topology/die_id": m.die, "topology/cluster_id": m.cluster,
			"topology/core_id": m.core, "cpu_capacity": m.capacity,
		} {
			if f != nil {
				put(at+name, fmt.Sprint(f(id)))
			}
		}
		if m.threads != nil {
			put(at+"topology/core_cpus_list", m.threads(id))
		}
		if m.node != nil {
			put(fmt.Sprintf("%snode%d/cpulist", at, m.node(id)), "")
		}
		put(at+"cache/index0/level", "1")
		m.cache(put, at+"cache/index2/", "2", id, m.l2, m.l2cpus)
		m.cache(put, at+"cache/index3/", "3", id, m.l3, m.l3cpus)
	}
	m.lists(put)
	return out
}

// lists are which CPUs have the same number, as newer kernels tell.
func (m model) lists(put func(name, content string)) {
	if m.noLists {
		return
	}
	for name, number := range map[string]func(int) int{"package_cpus_list": m.socket, "die_cpus_list": m.die, "cluster_cpus_list": m.cluster, "": m.node} {
		if number == nil {
			continue
		}
		// Cores and dies are counted anew on each socket.
		of := func(id int) string {
			if m.socket == nil || name == "" {
				return fmt.Sprint(number(id))
			}
			return fmt.Sprint(m.socket(id), number(id))
		}
		same := map[string][]int{}
		for _, id := range m.cpus {
			same[of(id)] = append(same[of(id)], id)
		}
		for _, id := range m.cpus {
			if list := cpuset.Of(same[of(id)]...).String(); name != "" {
				put(fmt.Sprintf("devices/system/cpu/cpu%d/topology/%s", id, name), list)
			} else {
				put(fmt.Sprintf("devices/system/node/node%d/cpulist", number(id)), list)
			}
		}
	}
}

func (m model) cache(put func(name, content string), at, level string, id int, cache func(int) int, cpus func(int) string) {
	if cpus == nil {
		return
	}
	put(at+"level", level)
	put(at+"shared_cpu_list", cpus(id))
	if cache != nil && !m.noCacheID {
		put(at+"id", fmt.Sprint(cache(id)))
	}
}

// regular is a machine whose second threads are numbered after all first ones.
func regular(name string, sockets, cores, smt, nodes, l3s int) model {
	n := cores * smt
	core := func(id int) int { return id % cores }
	group := func(groups int) func(id int) string {
		return func(id int) string {
			per := cores / groups
			first := core(id) / per * per
			list := fmt.Sprintf("%d-%d", first, first+per-1)
			for t := 1; t < smt; t++ {
				list += fmt.Sprintf(",%d-%d", first+t*cores, first+t*cores+per-1)
			}
			return list
		}
	}
	return model{
		name: name, cpus: upTo(n),
		socket: func(id int) int { return core(id) * sockets / cores },
		die:    func(int) int { return 0 },
		core:   func(id int) int { return core(id) % (cores / sockets) },
		node:   func(id int) int { return core(id) * nodes / cores },
		l2:     core, l2cpus: group(cores),
		l3: func(id int) int { return core(id) * l3s / cores }, l3cpus: group(l3s),
		threads: group(cores),
	}
}

func models() []model {
	epyc := regular("two 96-core EPYC, one node per socket", 2, 192, 2, 2, 24)
	epyc.files = map[string]string{"devices/system/cpu/smt/control": "on"}
	nps4 := regular("two 96-core EPYC, four nodes per socket", 2, 192, 2, 8, 24)
	xeon := regular("two 20-core Xeon", 2, 40, 2, 2, 2)
	xeon.threads = nil // an old kernel or an overlay: the core ids must do
	power := regular("POWER9 with four threads", 2, 44, 4, 2, 22)

	altra := regular("Ampere Altra: no SMT, no L3, ids of clusters", 2, 160, 1, 2, 2)
	altra.l3, altra.l3cpus = nil, nil
	altra.core = func(id int) int { return id % 2 }
	altra.cluster = func(id int) int { return id / 2 }
	altra.threads = nil
	altra.files = map[string]string{"devices/system/cpu/smt/control": "notimplemented"}

	hybrid := regular("hybrid desktop: 8 P-cores and 16 E-cores", 1, 32, 1, 1, 1)
	hybrid.core = func(id int) int {
		if id < 16 {
			return id / 2 * 4
		}
		return id + 16
	}
	hybrid.threads = func(id int) string {
		if id < 16 {
			return fmt.Sprintf("%d-%d", id/2*2, id/2*2+1)
		}
		return fmt.Sprint(id)
	}
	hybrid.files = map[string]string{"devices/cpu_atom/cpus": "16-31", "devices/cpu_core/cpus": "0-15", "devices/system/cpu/smt/control": "on"}

	little := regular("big.LITTLE board", 1, 8, 1, 1, 1)
	little.capacity = func(id int) int { return []int{446, 446, 446, 446, 871, 871, 1024, 1024}[id] }
	little.l3, little.noCacheID = nil, true
	little.cluster = func(id int) int { return 65535 }

	bare := model{name: "virtual machine without topology, caches and NUMA", cpus: upTo(4)}
	sparse := regular("threads off and CPUs missing", 2, 16, 2, 2, 4)
	sparse.cpus = []int{0, 1, 2, 4, 5, 8, 9, 10, 11, 16, 17, 18, 24, 25}
	sparse.files = map[string]string{"devices/system/cpu/isolated": "4-5", "devices/system/node/node2/cpulist": ""}
	repeated := regular("cache ids that begin anew on each socket", 2, 8, 1, 2, 4)
	repeated.l3 = func(id int) int { return id / 2 % 2 }
	negative := regular("negative ids", 1, 4, 1, 1, 1)
	negative.socket, negative.core = func(int) int { return -1 }, func(int) int { return -1 }
	return append([]model{epyc, nps4, xeon, power, altra, hybrid, little, bare, sparse, repeated, negative}, servers()...)
}
