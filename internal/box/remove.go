package box

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// Down ends the box and removes all of it but the cache. It needs no state, so
// it also clears what a killed Up left.
func (b *Box) Down(ctx context.Context) error {
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return b.Report.Run(ctx, "Removing the box", func(ctx context.Context, _ *progress.Step) error {
		containers, err := filepath.Glob(b.containerDir("*"))
		if err != nil {
			return err
		}
		var failed []error
		for _, dir := range containers {
			failed = append(failed, b.remove(ctx, filepath.Base(dir)))
		}
		failed = append(failed,
			b.removeCgroups(b.prefix()), b.unmountBelow(b.dir()), b.removeNetwork(ctx))
		if err := errors.Join(failed...); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(b.dir()), os.Remove(b.lockFile()))
	})
}

// remove ends a container with all its processes and removes it, but not its data.
func (b *Box) remove(ctx context.Context, name string) error {
	id := b.containerID(name)
	if exists(b.dir("runc", id)) {
		// Force also takes containers that never started; what it can't take is cleared below.
		_ = hostcmd.Run(ctx, hostcmd.Cmd{Args: b.runc("delete", "--force", id)})
	}
	if err := b.removeCgroups(filepath.Join(b.prefix(), name)); err != nil {
		return err
	}
	if err := b.unmountBelow(b.containerDir(name)); err != nil {
		return err
	}
	for _, gone := range []string{b.dir("runc", id), b.containerDir(name, "upper"), b.containerDir(name, "work")} {
		if err := os.RemoveAll(gone); err != nil {
			return fmt.Errorf("remove container %s: %w", name, err)
		}
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

// removeCgroups kills what runs in the cgroups named name, in every hierarchy, and removes them.
func (b *Box) removeCgroups(name string) error {
	var found []string
	err := filepath.WalkDir(cgroupRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // Another process's cgroup went away while we looked.
		}
		if d.IsDir() && strings.HasSuffix(path, "/"+name) {
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for cgroups: %w", err)
	}
	for _, path := range found {
		if err := removeCgroup(path); err != nil {
			return err
		}
	}
	return nil
}

const cgroupPatience = 10 * time.Second

func removeCgroup(top string) error {
	deadline := time.Now().Add(cgroupPatience)
	for {
		var groups []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		slices.Reverse(groups) // Children before their parents.
		var failed error
		for _, path := range groups {
			killCgroup(path)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = err
			}
		}
		if failed == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", failed)
		}
		// Killed processes leave their cgroup when the kernel has taken them down.
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // between two looks, until the deadline
	}
}

func killCgroup(path string) {
	f, err := os.Open(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 1 && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmountBelow unmounts everything that is mounted at or below dir.
func (b *Box) unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// proc_pid_mountinfo(5): blanks in paths are written in octal.
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points) // The newest lie on top.
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}
