package box

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
)

// container is one container of the box: the control plane or a node.
type container struct {
	name   string
	rootfs string
	// isolated gives the container an empty network instead of the one made for its name.
	isolated bool
	// beside names the container whose network this one has too.
	beside string
	init   nodeinit.Config
	// binds are host paths by their place in the container; folders are made.
	binds    map[string]string
	readonly map[string]string
	// listener is handed to the container's first process as file descriptor 3.
	listener *os.File
}

const initPath = "/run/slinky/slinky"

func (b *Box) runc(args ...string) []string {
	return append([]string{"runc", "--root", b.dir("runc")}, args...)
}

func (b *Box) containerID(name string) string { return b.prefix() + "-" + name }

// status returns runc's word for a container, or "" if there is none.
func (b *Box) status(ctx context.Context, name string) (string, error) {
	if _, err := os.Stat(b.dir("runc", b.containerID(name))); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	out, err := hostcmd.Output(ctx, hostcmd.Cmd{Args: b.runc("state", b.containerID(name))})
	if err != nil {
		// A killed run can leave a folder that runc itself doesn't understand.
		return "broken", nil
	}
	var state struct{ Status string }
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		return "", fmt.Errorf("read the state of container %s: %w", name, err)
	}
	return state.Status, nil
}

// start starts a container anew: what is left of one of its name is removed first, except its data.
func (b *Box) start(ctx context.Context, c container) error {
	if err := b.remove(ctx, c.name); err != nil {
		return err
	}
	if err := b.makeBundle(c); err != nil {
		return fmt.Errorf("prepare container %s: %w", c.name, err)
	}
	log, err := os.OpenFile(b.containerDir(c.name, "logs", "init.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log of container %s: %w", c.name, err)
	}
	defer log.Close()
	args := b.runc("run", "--detach", "--bundle", b.containerDir(c.name))
	if c.listener != nil {
		args = append(args, "--preserve-fds", "1")
	}
	// The container keeps the log open, so it must be a file and not a pipe of ours.
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], b.containerID(c.name))...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.listener != nil {
		cmd.ExtraFiles = []*os.File{c.listener}
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("start container %s: %w\n%s", c.name, err, fileTail(log.Name()))
	}
	return nil
}

func fileTail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

func (b *Box) makeBundle(c container) error {
	dir := b.containerDir(c.name)
	for _, sub := range []string{"upper", "work", "rootfs", "logs", "conf"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, source := range c.binds {
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
	}
	initConf, err := json.MarshalIndent(c.init, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(dir, "conf", "init.json"), initConf, 0o600); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", c.rootfs, dir, dir)
	if err := unix.Mount("overlay", filepath.Join(dir, "rootfs"), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount its root file system: %w", err)
	}
	spec, err := b.spec(c)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, "config.json"), data, 0o600)
}

func (b *Box) spec(c container) (*specs.Spec, error) {
	dir := b.containerDir(c.name)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	capabilities, err := ownCapabilities()
	if err != nil {
		return nil, err
	}
	mounts := append(systemMounts(),
		bind(dir+"/conf", "/node", "ro"), bind(dir+"/logs", "/logs"), bind(b.Self, initPath, "ro"))
	for target, source := range c.binds {
		mounts = append(mounts, bind(source, target))
	}
	for target, source := range c.readonly {
		mounts = append(mounts, bind(source, target, "ro"))
	}
	// A mount must come after the mount that it lies in.
	slices.SortStableFunc(mounts, func(x, y specs.Mount) int { return strings.Compare(x.Destination, y.Destination) })
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: c.name,
		Root:     &specs.Root{Path: dir + "/rootfs"},
		Process: &specs.Process{
			Cwd:  "/",
			Args: []string{"/usr/bin/tini", "--", initPath, "node-init", "/node/init.json"},
			Env: []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
			},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities, Inheritable: capabilities,
			},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: files.Max, Soft: files.Max}},
		},
		Mounts: mounts,
		Linux: &specs.Linux{
			RootfsPropagation: "shared",
			CgroupsPath:       cgroupsPath(cgroupRoot, b.prefix()+"/"+c.name),
			Resources:         &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}},
			Devices:           devices(),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.IPCNamespace}, {Type: specs.CgroupNamespace},
				b.network(c),
			},
		},
	}, nil
}

// cgroupsPath is where runc makes a container's cgroup. A relative path lies beside or below the cgroup that this process is in.
// Under v2 that can belong to a login session, which ends with all that is in it, so there the path is absolute.
func cgroupsPath(root, name string) string {
	if exists(filepath.Join(root, "cgroup.controllers")) {
		return "/" + name
	}
	return name
}

func (b *Box) network(c container) specs.LinuxNamespace {
	if c.isolated {
		return specs.LinuxNamespace{Type: specs.NetworkNamespace}
	}
	return specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: netnsPath(b.netns(cmp.Or(c.beside, c.name)))}
}

func bind(source, target string, options ...string) specs.Mount {
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: append([]string{"rbind"}, options...)}
}

func systemMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=524288k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=755"}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
	}
}

// devices are what kubelet and container runtimes want beside the usual ones.
func devices() []specs.LinuxDevice {
	mode := os.FileMode(0o666)
	var out []specs.LinuxDevice
	for path, n := range map[string][2]int64{"/dev/kmsg": {1, 11}, "/dev/fuse": {10, 229}, "/dev/net/tun": {10, 200}} {
		out = append(out, specs.LinuxDevice{Path: path, Type: "c", Major: n[0], Minor: n[1], FileMode: &mode})
	}
	slices.SortFunc(out, func(x, y specs.LinuxDevice) int { return strings.Compare(x.Path, y.Path) })
	return out
}
