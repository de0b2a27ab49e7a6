package nodeinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func prepare(c Config) error {
	// Kubelet hands mounts on to containers, which needs a shared tree.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mount tree: %w", err)
	}
	for key, value := range c.Sysctls {
		if err := hideSysctl(key, value); err != nil {
			return err
		}
	}
	for _, dir := range append(c.Folders, c.LogDir) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder in the container: %w", err)
		}
	}
	for from, to := range c.Copies {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy %s to %s: %w", from, to, err)
		}
	}
	return delegateCgroups("/sys/fs/cgroup", c.Machine != nil)
}

// hideSysctl mounts a file with the wanted value over the kernel's own, for
// daemons that insist on a value: the host's setting is not changed.
func hideSysctl(key, value string) error {
	file := "/run/sysctl-" + strings.ReplaceAll(key, "/", "-")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
		return fmt.Errorf("write stand-in of sysctl %s: %w", key, err)
	}
	target := filepath.Join("/proc/sys", key)
	if err := syscall.Mount(file, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount stand-in of sysctl %s: %w", key, err)
	}
	return nil
}

// delegateCgroups moves this container's processes out of its root cgroup, as
// cgroup v2 lets a group have either processes or controllers for its children.
// Under cgroup v1 there is nothing to do, and the root cgroup of a whole machine may have both.
func delegateCgroups(root string, machine bool) error {
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	if machine {
		return handOn(root, controllers)
	}
	leaf := filepath.Join(root, "init")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("make cgroup for the container's first processes: %w", err)
	}
	procs, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("list processes of the root cgroup: %w", err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0o644)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("move process %s to its cgroup: %w", pid, err)
		}
	}
	return handOn(root, controllers)
}
