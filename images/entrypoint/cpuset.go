package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cores are the machine's cores with their CPUs, in the order in which Slurm counts them: by
// socket, then by core. Slurm's own ("abstract") number of a CPU is its place in this order.
type cores [][]int

// readCores reads them below root, which is /sys/devices/system/cpu. CPUs that are off have no topology.
func readCores(root string) (cores, error) {
	online, err := readList(filepath.Join(root, "online"))
	if err != nil {
		return nil, err
	}
	socketOf := map[int]int{}
	var out cores
	for _, cpu := range online {
		dir := filepath.Join(root, fmt.Sprintf("cpu%d", cpu), "topology")
		siblings, err := readList(filepath.Join(dir, "thread_siblings_list"))
		if err != nil {
			return nil, err
		}
		socket, err := readList(filepath.Join(dir, "physical_package_id"))
		if err != nil {
			return nil, err
		}
		siblings = slices.DeleteFunc(siblings, func(c int) bool { return !slices.Contains(online, c) })
		if len(siblings) == 0 || len(socket) != 1 {
			return nil, fmt.Errorf("%s: no core or socket of CPU %d", dir, cpu)
		}
		if siblings[0] == cpu {
			out = append(out, siblings)
			socketOf[cpu] = socket[0]
		}
	}
	// Sockets come in the order of their first CPU, whatever their numbers.
	first := map[int]int{}
	for _, c := range out {
		s := socketOf[c[0]]
		if at, seen := first[s]; !seen || c[0] < at {
			first[s] = c[0]
		}
	}
	slices.SortStableFunc(out, func(a, b []int) int { return first[socketOf[a[0]]] - first[socketOf[b[0]]] })
	return out, nil
}

func readList(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, err := parseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// parseCPUs reads the kernel's form of a set of CPUs, such as 0-3,8.
func parseCPUs(text string) ([]int, error) {
	var out []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || a < 0 || b < a || b > 1<<16 {
			return nil, fmt.Errorf("%q is no set of CPUs", text)
		}
		for c := a; c <= b; c++ {
			out = append(out, c)
		}
	}
	return out, nil
}

// allowedCPUs finds the CPUs that this process may use in the text of /proc/self/status.
func allowedCPUs(status string) ([]int, error) {
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseCPUs(strings.TrimSpace(list))
		}
	}
	return nil, fmt.Errorf("/proc/self/status doesn't tell the allowed CPUs")
}

// forbidden lists, by Slurm's own numbers, the CPUs of those cores that a container with these
// CPUs and this limit (0 for none) can't use; empty if it may use each core. A core of which
// it has one thread is one that it can use.
func (all cores) forbidden(allowed []int, limit int) string {
	may := func(core []int) bool {
		return slices.ContainsFunc(core, func(c int) bool { return slices.Contains(allowed, c) })
	}
	if !slices.ContainsFunc(all, func(core []int) bool { return !may(core) }) {
		return ""
	}
	var out []string
	number, used, from := 0, 0, -1
	end := func() {
		switch {
		case from < 0:
		case from == number-1:
			out = append(out, strconv.Itoa(from))
		default:
			out = append(out, fmt.Sprintf("%d-%d", from, number-1))
		}
		from = -1
	}
	for _, core := range all {
		if may(core) && (limit == 0 || used < limit) {
			end()
			used += len(core)
		} else if from < 0 {
			from = number
		}
		number += len(core)
	}
	end()
	return strings.Join(out, ",")
}

// machineCores reads this machine, and which of its CPUs this process may use.
func machineCores() (cores, []int, error) {
	all, err := readCores("/sys/devices/system/cpu")
	if err != nil {
		return nil, nil, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, nil, err
	}
	allowed, err := allowedCPUs(string(status))
	return all, allowed, err
}
