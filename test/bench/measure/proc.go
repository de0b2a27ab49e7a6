package measure

import (
	"bytes"
	"fmt"
	"os"
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
