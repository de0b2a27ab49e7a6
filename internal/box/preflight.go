package box

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	minMemory = 5 << 30
	// A cold start writes build caches, root file systems and images.
	minDiskCold = 16 << 30
	minDiskWarm = 4 << 30
	minFiles    = 4096
)

// hostPackages are what the box needs of the machine; the first are there already on most.
func hostPackages() []string {
	return []string{"iproute2", "procps", "util-linux", "mount", "runc", "mmdebstrap", "buildah"}
}

// Host is what Preflight looks at.
type Host struct {
	UID         int
	Filesystems string
	Mounts      string
	// Controllers are those of cgroup v2; empty where it isn't the one that is mounted.
	Controllers string
	MemInfo     string
	FreeDisk    uint64
	OpenFiles   uint64
	HasAptGet   bool
	HasGo       bool
}

// Preflight tells, before anything is touched, why a box can't run here.
func (b *Box) Preflight() error {
	h, err := b.readHost()
	if err != nil {
		return err
	}
	return h.check(exists(filepath.Join(b.Root, "seed")))
}

func (b *Box) readHost() (Host, error) {
	h := Host{UID: os.Geteuid()}
	loadOverlay()
	for path, text := range map[string]*string{"/proc/filesystems": &h.Filesystems, "/proc/self/mounts": &h.Mounts, "/proc/meminfo": &h.MemInfo} {
		data, err := os.ReadFile(path)
		if err != nil {
			return h, fmt.Errorf("look at this machine: %w", err)
		}
		*text = string(data)
	}
	controllers, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("look at this machine: %w", err)
	}
	h.Controllers = string(controllers)
	var disk unix.Statfs_t
	if err := unix.Statfs(existingParent(b.Root), &disk); err != nil {
		return h, fmt.Errorf("look at the disk of %s: %w", b.Root, err)
	}
	h.FreeDisk = disk.Bavail * uint64(disk.Bsize)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return h, fmt.Errorf("read the limit of open files: %w", err)
	}
	h.OpenFiles = files.Max
	_, errApt := exec.LookPath("apt-get")
	_, errGo := exec.LookPath("go")
	h.HasAptGet, h.HasGo = errApt == nil, errGo == nil
	return h, nil
}

// loadOverlay has the kernel load overlay's module as a mount would: until then, /proc/filesystems doesn't list it.
func loadOverlay() {
	if fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC); err == nil {
		unix.Close(fd)
	}
}

func existingParent(path string) string {
	for !exists(path) && path != "/" {
		path = filepath.Dir(path)
	}
	return path
}

func (h Host) check(warm bool) error {
	if h.UID != 0 {
		return errors.New("a box needs root for its namespaces, mounts and cgroups: run this as root or with sudo")
	}
	if !h.HasAptGet {
		return errors.New("a box is made from Debian packages and needs apt-get: run it on Debian 12 or 13")
	}
	if !h.HasGo {
		return errors.New("a box builds Kubernetes from Go modules and needs the go command: install Go 1.26 or later and put it in PATH")
	}
	for _, fs := range []string{"overlay", "proc", "sysfs", "tmpfs"} {
		if !strings.Contains(h.Filesystems, "\t"+fs+"\n") {
			return fmt.Errorf("this machine's kernel has no %s file system: use a kernel with CONFIG_OVERLAY_FS or load its module", fs)
		}
	}
	if missing := h.missingControllers(); len(missing) > 0 {
		return fmt.Errorf("this machine has no cgroup controllers %s below %s: mount cgroup v2 there, or those of v1, and see that the kernel's command line doesn't turn them off",
			strings.Join(missing, ", "), cgroupRoot)
	}
	if h.OpenFiles < minFiles {
		return fmt.Errorf("processes may open only %d files here and a box needs %d: raise the hard limit (ulimit -Hn)", h.OpenFiles, minFiles)
	}
	if got := h.memory(); got < minMemory {
		return fmt.Errorf("this machine has %d MiB of memory available and a box needs %d MiB", got>>20, minMemory>>20)
	}
	want := uint64(minDiskCold)
	if warm {
		want = minDiskWarm
	}
	if h.FreeDisk < want {
		return fmt.Errorf("the disk of the cache folder has %d MiB free and a box needs %d MiB: free some, or set XDG_CACHE_HOME to another disk",
			h.FreeDisk>>20, want>>20)
	}
	return nil
}

func (h Host) missingControllers() []string {
	var missing []string
	v2 := strings.Fields(h.Controllers)
	for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
		v1 := false
		for line := range strings.Lines(h.Mounts) {
			f := strings.Fields(line)
			v1 = v1 || len(f) > 3 && f[2] == "cgroup" && strings.Contains(","+f[3]+",", ","+c+",")
		}
		if !v1 && !slices.Contains(v2, c) {
			missing = append(missing, c)
		}
	}
	return missing
}

func (h Host) memory() uint64 {
	for line := range bytes.Lines([]byte(h.MemInfo)) {
		var kib uint64
		if n, _ := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
