package main

import (
	"fmt"
	"strconv"
	"strings"
)

// conf is the text of slurmd's --conf: the node's line of slurm.conf without its name, as pairs in their order.
type conf []struct{ key, value string }

// parseConf splits at spaces outside double quotes. A pair without a value is dropped: slurmctld would refuse the whole
// registration because of it, and it only means that a variable was empty.
func parseConf(text string) conf {
	var out conf
	quoted := false
	fields := strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		if strings.Trim(value, `"'`) == "" {
			continue
		}
		out = append(out, struct{ key, value string }{key, value})
	}
	return out
}

func (c conf) get(key string) (string, bool) {
	for _, p := range c {
		if strings.EqualFold(p.key, key) {
			return p.value, true
		}
	}
	return "", false
}

// setDefault adds a pair unless the key is there: what the user says about a node comes before what we compute.
func (c conf) setDefault(key, value string) conf {
	if _, ok := c.get(key); ok || value == "" {
		return c
	}
	return append(c, struct{ key, value string }{key, value})
}

func (c conf) String() string {
	parts := make([]string, len(c))
	for i, p := range c {
		parts[i] = p.key + "=" + p.value
	}
	return strings.Join(parts, " ")
}

// number reads a key as a whole number, 0 if it is absent or isn't one.
func (c conf) number(key string) int {
	text, _ := c.get(key)
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// machine is what there is below the container.
type machine struct {
	// hardware returns the line that `slurmd -C` prints.
	hardware func() (string, error)
	// cores returns the machine's cores, and which CPUs the container may use. slurmd itself
	// looks at the whole machine, whatever the container's cpuset is.
	cores func() (cores, []int, error)
	// warn hears what doesn't keep slurmd from starting.
	warn func(text string)
}

// slurmdArgs returns slurmd's arguments, with what the pod's limits and place say about a dynamic node (-Z) merged into --conf.
func slurmdArgs(args []string, getenv func(string) string, m machine) ([]string, error) {
	rest, text := takeConf(args)
	if !dynamic(rest) {
		return args, nil
	}
	c := parseConf(text)
	l, err := readLimits(getenv)
	if err != nil {
		return nil, err
	}
	c = withCPUSet(c, m, l.cpus)
	if l.cpus > 0 || l.memory > 0 {
		line, err := m.hardware()
		if err != nil {
			return nil, fmt.Errorf("ask slurmd for this node's hardware: %w", err)
		}
		c = withLimits(c, parseConf(line), l)
	}
	c = c.setDefault("Topology", getenv("POD_TOPOLOGY"))
	if len(c) == 0 {
		return rest, nil
	}
	return append(rest, "--conf", c.String()), nil
}

// limits are the pod's: CPUs and MiB, 0 for no limit. reserved is what jobs may not have of its memory.
type limits struct{ cpus, memory, reserved int }

func readLimits(getenv func(string) string) (l limits, err error) {
	for name, to := range map[string]*int{"POD_CPUS": &l.cpus, "POD_MEMORY": &l.memory, "POD_MEMORY_RESERVED": &l.reserved} {
		if *to, err = limit(getenv, name); err != nil {
			return l, err
		}
	}
	if l.reserved > 0 && l.reserved >= l.memory {
		return l, fmt.Errorf("POD_MEMORY_RESERVED is %d MiB, which leaves jobs nothing of POD_MEMORY, %d MiB", l.reserved, l.memory)
	}
	return l, nil
}

// withCPUSet keeps from Slurm the cores that are not in the container's cpuset. Whoever
// describes another machine than this one, or reserves cores, has decided already.
func withCPUSet(c conf, m machine, cpus int) conf {
	for _, key := range []string{"CpuSpecList", "CoreSpecCount", "CPUs", "Procs", "Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore"} {
		if _, ok := c.get(key); ok {
			return c
		}
	}
	all, allowed, err := m.cores()
	if err != nil {
		m.warn(fmt.Sprintf("can't find out which CPUs are the container's, Slurm will use any: %v", err))
		return c
	}
	return c.setDefault("CpuSpecList", all.forbidden(allowed, cpus))
}

// withLimits keeps from Slurm the cores and the memory of the machine that the pod may not use.
func withLimits(c, machine conf, l limits) conf {
	usableMemory := l.memory - l.reserved
	if real := first(c.number("RealMemory"), machine.number("RealMemory")); l.memory > 0 && real > usableMemory {
		c = c.setDefault("MemSpecLimit", strconv.Itoa(real-usableMemory))
	}
	if _, ok := c.get("CpuSpecList"); ok {
		return c
	}
	threads := first(c.number("ThreadsPerCore"), machine.number("ThreadsPerCore"), 1)
	total := first(c.number("CPUs"), machine.number("CPUs"))
	cores := total / threads
	// Slurm hands out whole cores: a pod that may use half a core more gets that core, never none at all.
	if usable := (l.cpus + threads - 1) / threads; l.cpus > 0 && cores > usable {
		c = c.setDefault("CoreSpecCount", strconv.Itoa(cores-usable))
	}
	return c
}

// takeConf takes every --conf out of the arguments and returns their texts in one.
func takeConf(args []string) (rest []string, text string) {
	var texts []string
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], "--conf=")
		switch {
		case joined:
			texts = append(texts, value)
		case args[i] == "--conf" && i+1 < len(args):
			i++
			texts = append(texts, args[i])
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, strings.Join(texts, " ")
}

func dynamic(args []string) bool {
	for _, a := range args {
		if a == "-Z" {
			return true
		}
	}
	return false
}

// limit reads a pod limit, 0 if there is none.
func limit(getenv func(string) string, name string) (int, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is %q, want a whole number of 0 or more", name, text)
	}
	return n, nil
}

func first(numbers ...int) int {
	for _, n := range numbers {
		if n > 0 {
			return n
		}
	}
	return 0
}
