package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// downLimit is how long the box may take to go away.
const downLimit = 5 * time.Minute

// machine is what a box could leave behind on it, by kind.
type machine map[string][]string

// look lists what there is below root, "/" but in tests. The boxes' own folders
// are in the folder boxes.
func look(root, boxes string) (machine, error) {
	m := machine{}
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 {
			m["mount"] = append(m["mount"], f[4])
		}
	}
	for kind, dir := range map[string]string{
		"network interface": filepath.Join(root, "sys/class/net"),
		"network namespace": filepath.Join(root, "run/netns"),
		"folder of the box": boxes,
	} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("list each %s: %w", kind, err)
		}
		for _, e := range entries {
			m[kind] = append(m[kind], e.Name())
		}
	}
	cgroups := filepath.Join(root, "sys/fs/cgroup")
	_ = filepath.WalkDir(cgroups, func(path string, d fs.DirEntry, err error) error {
		// Groups of others come and go while we look; one that is gone is no leftover.
		if err == nil && d.IsDir() && strings.Contains(path, "slinky") {
			m["cgroup"] = append(m["cgroup"], path)
		}
		return nil
	})
	m["process"], err = contained(root)
	return m, err
}

// contained lists the processes that live in namespaces of their own, as all
// processes of a box do, by the names of their namespaces and commands.
func contained(root string) ([]string, error) {
	proc := filepath.Join(root, "proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	own := namespaces(filepath.Join(proc, "self"))
	var found []string
	for _, e := range entries {
		dir := filepath.Join(proc, e.Name())
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		ns := namespaces(dir)
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || ns == "" || ns == own || len(cmdline) == 0 {
			continue // ended meanwhile, a thread of the kernel, or in the host's namespaces
		}
		found = append(found, e.Name()+" "+strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " ")))
	}
	return found, nil
}

func namespaces(dir string) string {
	var all []string
	for _, kind := range []string{"pid", "mnt", "net"} {
		ns, err := os.Readlink(filepath.Join(dir, "ns", kind))
		if err != nil {
			return ""
		}
		all = append(all, ns)
	}
	return strings.Join(all, " ")
}

// minus lists what is in m and was not there before, one line each.
func (m machine) minus(before machine) []string {
	var left []string
	for kind, things := range m {
		for _, thing := range things {
			if !slices.Contains(before[kind], thing) {
				left = append(left, kind+" "+thing)
			}
		}
	}
	slices.Sort(left)
	return left
}
