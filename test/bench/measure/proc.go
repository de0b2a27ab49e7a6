package measure

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of processor time in /proc, the same on all machines that Go runs on.
const ticksPerSecond = 100

// ProcessCPU returns the seconds of processor time that a process has used, 0 for one that has gone.
func ProcessCPU(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may have any letter; after it come the state and numbers.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	return (number(f[11]) + number(f[12])) / ticksPerSecond
}

// Programs is processor time in seconds by program, of all processes that this one sees.
// In a process namespace of their own these are the run's, whatever else the machine does.
type Programs map[string]float64

// ReadPrograms returns what the processes that live now have used, and the children that they waited for.
func ReadPrograms() Programs {
	out := Programs{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone
		}
		open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if f := strings.Fields(string(text[end+1:])); open > 0 && len(f) > 14 {
			out[string(text[open+1:end])] += (number(f[11]) + number(f[12]) + number(f[13]) + number(f[14])) / ticksPerSecond
		}
	}
	return out
}

// Since returns what was used since an earlier reading, the programs that used most first.
func (p Programs) Since(before Programs) (all float64, each string) {
	used := Programs{}
	for name, x := range p {
		if d := x - before[name]; d > 0 {
			used[name] = d
			all += d
		}
	}
	var words []string
	for _, name := range slices.SortedFunc(maps.Keys(used), func(a, b string) int { return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(a, b)) }) {
		words = append(words, fmt.Sprintf("%s %.2f s", name, used[name]))
	}
	return all, strings.Join(words, ", ")
}

// ProcessMemory returns the resident memory of a process and its peak, in MiB.
func ProcessMemory(pid int) (now, peak int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "VmRSS:":
			now = int(number(f[1])) / 1024
		case f[0] == "VmHWM:":
			peak = int(number(f[1])) / 1024
		}
	}
	return now, peak
}

// HostCPU returns the seconds of processor time that the whole machine has used.
func HostCPU() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var busy float64
	for i, field := range strings.Fields(line) {
		// After the name: user, nice, system, idle, iowait, irq, softirq, steal.
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			busy += number(field)
		}
	}
	return busy / ticksPerSecond
}

func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}
