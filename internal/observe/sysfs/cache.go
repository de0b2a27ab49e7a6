package sysfs

import (
	"path"
	"slices"
	"strconv"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// findCaches gives each CPU the ids of its L2 and L3 caches. A cache's files say
// which CPUs share it, so they are read once per cache and not once per CPU.
func (r *reader) findCaches() {
	l2, l3 := map[int]int{}, map[int]int{}
	var last []string
	for i, c := range r.cpus {
		last = r.readCaches(c.ID, l2, l3, last)
		r.cpus[i].L2, r.cpus[i].L3 = known(l2, c.ID), known(l3, c.ID)
	}
	r.unique(l3, func(c *cpuset.CPU, id int) { c.L3 = id })
	r.unique(l2, func(c *cpuset.CPU, id int) { c.L2 = id })
}

func known(ids map[int]int, cpu int) int {
	if id, ok := ids[cpu]; ok {
		return id
	}
	return cpuset.Unknown
}

// readCaches reads the caches of a CPU that aren't known yet. Most likely they are in the folders that those of the CPU
// before it are in, so these are tried first. It returns the folders that there are.
func (r *reader) readCaches(cpu int, l2, l3 map[int]int, last []string) []string {
	at := path.Join(dir(cpu), "cache")
	missing := func() bool {
		_, have2 := l2[cpu]
		_, have3 := l3[cpu]
		return !have2 || !have3
	}
	var found []string
	read := func(index string) {
		ids := map[int]map[int]int{2: l2, 3: l3}[r.number(path.Join(at, index, "level"))]
		if ids == nil {
			return
		}
		found = append(found, index)
		if _, have := ids[cpu]; !have {
			r.readCache(cpu, path.Join(at, index), ids)
		}
	}
	for _, index := range last {
		if missing() {
			read(index)
		}
	}
	if !missing() {
		return last
	}
	for _, n := range numbered(r.root, at, "index") {
		if index := "index" + strconv.Itoa(n); !slices.Contains(last, index) {
			read(index)
		}
	}
	return found
}

// readCache notes a cache for all CPUs that share it.
func (r *reader) readCache(cpu int, at string, ids map[int]int) {
	shared, ok := r.list(path.Join(at, "shared_cpu_list"))
	if !ok || !shared.Has(cpu) {
		return
	}
	shared = shared.Intersect(r.online)
	id := r.number(path.Join(at, "id"))
	if id < 0 {
		id = shared.First()
	}
	for c := range shared.All() {
		ids[c] = id
	}
}

// unique replaces ids that begin anew on each socket by the lowest CPU of the cache:
// equal ids must mean one cache.
func (r *reader) unique(ids map[int]int, set func(*cpuset.CPU, int)) {
	socketOf, repeated := map[int]int{}, false
	for _, c := range r.cpus {
		id, ok := ids[c.ID]
		if !ok {
			continue
		}
		if s, seen := socketOf[id]; seen && s != c.Socket {
			repeated = true
		}
		socketOf[id] = c.Socket
	}
	if !repeated {
		return
	}
	type cache struct{ socket, id int }
	first := map[cache]int{}
	for i := range r.cpus {
		c := &r.cpus[i]
		id, ok := ids[c.ID]
		if !ok {
			continue
		}
		k := cache{c.Socket, id}
		if _, seen := first[k]; !seen {
			first[k] = c.ID
		}
		set(c, first[k])
	}
}
