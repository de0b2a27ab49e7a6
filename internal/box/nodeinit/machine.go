package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Machine is what a machine of its own has to do beside what a container does, because nobody did it from outside.
type Machine struct {
	Hostname string
	// Address has a prefix length, as in 10.0.0.7/24.
	Address, Gateway string
	// Modules are the kernel's that the daemons need. Those that are built in don't matter.
	Modules []string
}

// BootMachine is the first work of a machine that was started without an initial file system: the kernel's own file systems.
func BootMachine() error {
	for _, m := range []struct{ kind, target, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", "ptmxmode=0666,mode=0620,gid=5"},
		{"tmpfs", "/dev/shm", "mode=1777"}, {"tmpfs", "/run", "mode=755"}, {"tmpfs", "/tmp", "mode=1777"}, {"cgroup2", "/sys/fs/cgroup", ""},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("make the machine's folder: %w", err)
		}
		// The kernel may have mounted /dev already.
		if err := syscall.Mount(m.kind, m.target, m.kind, 0, m.options); err != nil && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

func (m Machine) setUp(ctx context.Context) error {
	if err := syscall.Sethostname([]byte(m.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := command(ctx, "modprobe", append([]string{"--all", "--quiet"}, m.Modules...)...); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"}, {"addr", "add", m.Address, "dev", "eth0"}, {"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", m.Gateway},
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the machine route to its pods: %w", err)
	}
	return nil
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// handOn lets the children of a cgroup have its controllers.
func handOn(root string, controllers []byte) error {
	for name := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("hand cgroup controller %s on to pods: %w", name, err)
		}
	}
	return nil
}
