package dracpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// threadCounts are variables that tell libraries and runtimes how many threads to
// start. Many would otherwise count the machine's CPUs and not the container's.
func threadCounts() []string {
	return []string{
		"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
		"RAYON_NUM_THREADS", "JULIA_NUM_THREADS", "GOMAXPROCS", "PYTHON_CPU_COUNT", "DOTNET_PROCESSOR_COUNT",
		"SLURM_CPUS_ON_NODE",
	}
}

// variable is a name with its value.
type variable struct{ name, value string }

// environment says what to add to a container's environment and what to take out
// of it. What the pod or the image has set stays as it is; only the driver's own
// names are always right.
func environment(env []string, c *container, threads bool) (add []variable, remove []string) {
	for _, e := range env {
		// Of a claim with several requests the container shows one variable, as of any other claim.
		name, _, _ := strings.Cut(e, "=")
		if prefix := prefixOf(name); prefix != "" && strings.Contains(strings.TrimPrefix(name, prefix), "_") {
			remove = append(remove, name)
		}
	}
	type sets struct{ cpus, nodes cpuset.Set }
	seen := map[string]sets{}
	var order []string
	for _, u := range c.uses {
		if u.request < 0 {
			continue
		}
		s, ok := seen[string(u.claim)]
		if !ok {
			order = append(order, string(u.claim))
		}
		seen[string(u.claim)] = sets{s.cpus.Union(u.cpus), s.nodes.Union(u.nodes)}
	}
	for _, uid := range order {
		if s := seen[uid].cpus; !s.Empty() {
			add = append(add, variable{envPrefix + uid, s.String()})
		}
		if s := seen[uid].nodes; !s.Empty() {
			add = append(add, variable{memPrefix + uid, s.String()})
		}
	}
	// Names that every shell passes on; the others have dashes.
	if nodes := c.nodes(); !nodes.Empty() {
		add = append(add, variable{"DRA_MEMSET", nodes.String()})
	}
	if !c.exclusive() {
		return add, remove
	}
	cpus := c.cpus
	add = append(add, variable{"DRA_CPUSET", cpus.String()}, variable{"DRA_CPU_COUNT", strconv.Itoa(cpus.Len())})
	if !threads {
		return add, remove
	}
	set := map[string]bool{}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		set[name] = true
	}
	for _, name := range threadCounts() {
		if !set[name] {
			add = append(add, variable{name, strconv.Itoa(cpus.Len())})
		}
	}
	if !set["OMP_PLACES"] && !set["GOMP_CPU_AFFINITY"] && !set["KMP_AFFINITY"] {
		add = append(add, variable{"OMP_PLACES", places(cpus)})
	}
	return add, remove
}

// places is one OpenMP place per CPU.
func places(cpus cpuset.Set) string {
	var out []string
	for c := range cpus.All() {
		out = append(out, fmt.Sprintf("{%d}", c))
	}
	return strings.Join(out, ",")
}
