package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sixteen is a machine of 8 cores with two threads each, CPUs n and n+8, of which a container has some.
func sixteen(allowed string) func() (cores, []int, error) {
	return func() (cores, []int, error) {
		list, err := parseCPUs(allowed)
		var all cores
		for c := range 8 {
			all = append(all, []int{c, c + 8})
		}
		return all, list, err
	}
}

// fakeSys writes a machine: for each CPU its socket and its siblings.
func fakeSys(t *testing.T, online string, cpus map[int]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("online", online)
	for cpu, text := range cpus {
		socket, siblings, _ := strings.Cut(text, " ")
		write(fmt.Sprintf("cpu%d/topology/physical_package_id", cpu), socket)
		write(fmt.Sprintf("cpu%d/topology/thread_siblings_list", cpu), siblings)
	}
	return root
}

func TestReadCores(t *testing.T) {
	for name, c := range map[string]struct {
		online string
		cpus   map[int]string
		want   cores
	}{
		"no threads":              {"0-3", map[int]string{0: "0 0", 1: "0 1", 2: "0 2", 3: "0 3"}, cores{{0}, {1}, {2}, {3}}},
		"threads, far apart":      {"0-3", map[int]string{0: "0 0,2", 1: "0 1,3", 2: "0 0,2", 3: "0 1,3"}, cores{{0, 2}, {1, 3}}},
		"threads, side by side":   {"0-3", map[int]string{0: "0 0-1", 1: "0 0-1", 2: "0 2-3", 3: "0 2-3"}, cores{{0, 1}, {2, 3}}},
		"sockets in turn":         {"0-3", map[int]string{0: "0 0", 1: "1 1", 2: "0 2", 3: "1 3"}, cores{{0}, {2}, {1}, {3}}},
		"sockets by first CPU":    {"0-3", map[int]string{0: "36 0", 1: "36 1", 2: "0 2", 3: "0 3"}, cores{{0}, {1}, {2}, {3}}},
		"a thread is off":         {"0-2", map[int]string{0: "0 0,2", 1: "0 1,3", 2: "0 0,2"}, cores{{0, 2}, {1}}},
		"the first thread is off": {"1-3", map[int]string{1: "0 1,3", 2: "0 0,2", 3: "0 1,3"}, cores{{1, 3}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readCores(fakeSys(t, c.online, c.cpus))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, root := range map[string]string{
		"nothing there": t.TempDir(), "no list": fakeSys(t, "all", nil), "no topology": fakeSys(t, "0", nil), "two sockets": fakeSys(t, "0", map[int]string{0: "0-1 0"}),
	} {
		if got, err := readCores(root); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		allowed string
		limit   int
		want    string
	}{
		{"0-15", 0, ""},
		{"0-15", 4, ""}, // no cpuset: a number of cores is enough, and slurmd chooses which
		{"4-7,12-15", 0, "0-7"},
		{"4-7,12-15", 8, "0-7"},
		{"4-7,12-15", 3, "0-7,12-15"}, // three CPUs are two cores
		{"0-1,8-9", 0, "4-15"},
		{"1,9", 0, "0-1,4-15"},
		{"2", 0, "0-3,6-15"}, // a thread of a core is that core
		{"0,15", 2, "2-15"},
		{"", 0, "0-15"},
	} {
		all, allowed, err := sixteen(c.allowed)()
		if err != nil {
			t.Fatal(err)
		}
		if got := all.forbidden(allowed, c.limit); got != c.want {
			t.Errorf("%q, limit %d: got %q, want %q", c.allowed, c.limit, got, c.want)
		}
	}
	single := cores{{0}, {1}, {2}, {3}}
	if got := single.forbidden([]int{0, 2}, 0); got != "1,3" {
		t.Errorf("got %q", got)
	}
}

func TestSlurmdArgsInACPUSet(t *testing.T) {
	const line = "NodeName=x CPUs=16 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=64000\n"
	for name, c := range map[string]struct {
		args []string
		cpus string
		want string
	}{
		"the limit is the set's size": {[]string{"-Z"}, "8", "-Z --conf CpuSpecList=0-7"},
		"no limit":                    {[]string{"-Z"}, "0", "-Z --conf CpuSpecList=0-7"},
		"a user's count stays":        {[]string{"-Z", "--conf", "CoreSpecCount=2"}, "8", "-Z --conf CoreSpecCount=2"},
		"a user's list stays":         {[]string{"-Z", "--conf", "cpuspeclist=0"}, "8", "-Z --conf cpuspeclist=0"},
		"another machine":             {[]string{"-Z", "--conf", "CPUs=4"}, "0", "-Z --conf CPUs=4"},
		"a static node":               {[]string{"-N", "x"}, "8", "-N x"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine{func() (string, error) { return line, nil }, sixteen("4-7,12-15"), nil}
			got, err := slurmdArgs(c.args, env(map[string]string{"POD_CPUS": c.cpus}), m)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestAllowedCPUs(t *testing.T) {
	got, err := allowedCPUs("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t4-7,20\n")
	if diff := cmp.Diff([]int{4, 5, 6, 7, 20}, got); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
	for _, text := range []string{"", "Cpus_allowed_list:\t7-4", "Cpus_allowed_list:\tx", "Cpus_allowed_list:\t0-99999999"} {
		if got, err := allowedCPUs(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// What is unlike any machine that we know must not keep slurmd from starting.
func TestUnreadableMachine(t *testing.T) {
	var warned string
	m := machine{
		cores: func() (cores, []int, error) { return nil, nil, errors.New("no /sys here") },
		warn:  func(text string) { warned = text },
	}
	got, err := slurmdArgs([]string{"-Z"}, env(nil), m)
	if err != nil || len(got) != 1 || !strings.Contains(warned, "no /sys here") {
		t.Errorf("got %q, %v, warned of %q", got, err, warned)
	}
}

func TestMachineCores(t *testing.T) {
	all, allowed, err := machineCores()
	if err != nil || len(all) == 0 || len(allowed) == 0 {
		t.Errorf("got %v, %v, %v", all, allowed, err)
	}
}
