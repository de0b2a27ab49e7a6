package dracpu

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// What glibc's get_nprocs, and so C++, Python and many others, count CPUs by; and
// what older programs do. /sys/devices/system/cpu/possible and present stay the
// machine's: allocators and BPF libraries size memory by them that the kernel, or
// another thread, then indexes by CPU number. /proc/stat has counters that go on.
const (
	onlineFile  = "/sys/devices/system/cpu/online"
	cpuinfoFile = "/proc/cpuinfo"
)

// views are files that show a container its own CPUs where a program would read the
// machine's. They are named after the set, so that equal sets share them, and mounted
// read-only over the kernel's.
type views struct {
	dir string // on the host as in the driver's container
	// cpuinfo is the machine's /proc/cpuinfo.
	cpuinfo func() ([]byte, error)

	mu     sync.Mutex
	shared map[string]string // what the files of the shared containers say
}

func newViews(dataDir string, proc fs.FS) *views {
	return &views{dir: filepath.Join(dataDir, "views"), cpuinfo: func() ([]byte, error) { return fs.ReadFile(proc, "cpuinfo") }, shared: map[string]string{}}
}

// name is the folder of a set: the set itself for people, or what stands for a long one.
func viewName(cpus cpuset.Set) string {
	list := cpus.String()
	if len(list) > 100 {
		sum := sha256.Sum256([]byte(list))
		return "cpus-" + hex.EncodeToString(sum[:16])
	}
	return "cpus-" + list
}

// exclusive makes the files of a set, if they aren't there, and returns them by what they stand for.
func (v *views) exclusive(cpus cpuset.Set) (map[string]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir := filepath.Join(v.dir, viewName(cpus))
	out := map[string]string{onlineFile: filepath.Join(dir, "online")}
	if err := v.keep(out[onlineFile], func() ([]byte, error) { return []byte(cpus.String() + "\n"), nil }); err != nil {
		return nil, err
	}
	// A machine that doesn't tell of all these CPUs there keeps its own file.
	own := filepath.Join(dir, "cpuinfo")
	err := v.keep(own, func() ([]byte, error) { return v.cpuinfoOf(cpus) })
	switch {
	case err == nil:
		out[cpuinfoFile] = own
	case !errors.Is(err, errNoCPUInfo):
		return nil, err
	}
	return out, nil
}

// keep writes a file unless it is there.
func (v *views) keep(name string, content func() ([]byte, error)) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	data, err := content()
	if err != nil {
		return err
	}
	return v.write(name, data)
}

// write makes a whole file of what may be read by everybody in a container, and written
// by its owner: the driver has no right to write others'. After a crash of the machine
// there are no containers, so nothing waits for the disk.
func (v *views) write(name string, data []byte) error {
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = atomicfile.Replace(name, data, 0o644, atomicfile.Cached)
	}
	if err != nil {
		return fmt.Errorf("make the container's view of its CPUs: %w", err)
	}
	return nil
}

var errNoCPUInfo = errors.New("/proc/cpuinfo doesn't tell of each CPU")

// cpuinfoOf is what /proc/cpuinfo says of the CPUs, under their own numbers.
func (v *views) cpuinfoOf(cpus cpuset.Set) ([]byte, error) {
	data, err := v.cpuinfo()
	if err != nil {
		return nil, errNoCPUInfo
	}
	var out []string
	var found cpuset.Set
	for block := range strings.SplitSeq(string(data), "\n\n") {
		id, ok := processor(block)
		switch {
		case ok && cpus.Has(id):
			found = found.Union(cpuset.Of(id))
			out = append(out, block)
		case !ok && strings.TrimSpace(block) != "": // some machines add a block of what they are
			out = append(out, block)
		}
	}
	if !found.Equal(cpus) {
		return nil, errNoCPUInfo
	}
	return []byte(strings.TrimRight(strings.Join(out, "\n\n"), "\n") + "\n\n"), nil
}

// processor finds the number in a block of /proc/cpuinfo.
func processor(block string) (int, bool) {
	first, _, _ := strings.Cut(strings.TrimLeft(block, "\n"), "\n")
	key, value, _ := strings.Cut(first, ":")
	id, err := strconv.Atoi(strings.TrimSpace(value))
	return id, err == nil && strings.TrimSpace(key) == "processor" && id >= 0 && id < cpuset.MaxCPUs
}

// sharedFile is the file of the containers without a claim that run on the CPUs of that name.
func (v *views) sharedFile(name string) string { return filepath.Join(v.dir, name, "online") }

// follow writes shared CPUs down. Containers have the file mounted, so it is
// written in place: at each moment its first line is the old list or the new one.
func (v *views) follow(name string, cpus cpuset.Set) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := cpus.String() + "\n"
	if cpus.Empty() || line == v.shared[name] {
		return nil
	}
	if _, err := os.Stat(v.sharedFile(name)); errors.Is(err, fs.ErrNotExist) {
		if err := v.write(v.sharedFile(name), []byte(line)); err != nil {
			return err
		}
		v.shared[name] = line
		return nil
	}
	f, err := os.OpenFile(v.sharedFile(name), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte(line), 0)
		err = errors.Join(err, f.Truncate(int64(len(line))), f.Close())
	}
	if err != nil {
		return fmt.Errorf("show containers without a claim their CPUs: %w", err)
	}
	v.shared[name] = line
	return nil
}

// drop removes the files that nobody has; used, which names sets and shared files, is asked while no new one is made.
// What is mounted stays for the container that has it.
func (v *views) drop(used func() (sets []cpuset.Set, shared []string)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	entries, err := os.ReadDir(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for views of CPUs that nobody has: %w", err)
	}
	keep := map[string]bool{"shared": true}
	sets, shared := used()
	for _, name := range shared {
		keep[name] = true
	}
	for _, s := range sets {
		keep[viewName(s)] = true
	}
	var errs []error
	for _, e := range entries {
		if !keep[e.Name()] {
			delete(v.shared, e.Name())
			errs = append(errs, os.RemoveAll(filepath.Join(v.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// coverable tells whether a file of the kernel may be covered in a container: it must be
// of a file system of the container's own, since a mount over one that the pod has from
// its node might show there, and nobody else may have put something there.
func coverable(mounts []*api.Mount, file string) bool {
	top := "/" + strings.Split(file, "/")[1]
	own := false
	for _, m := range mounts {
		at := path.Clean(m.GetDestination())
		switch {
		case at == top && slices.Contains([]string{"sysfs", "proc"}, m.GetType()):
			own = true
		case at == "/" || file == at || strings.HasPrefix(file, at+"/"):
			return false
		}
	}
	return own
}

// cover mounts files over the kernel's.
func cover(a *api.ContainerAdjustment, mounts []*api.Mount, files map[string]string) {
	for _, file := range []string{onlineFile, cpuinfoFile} {
		if source, ok := files[file]; ok && coverable(mounts, file) {
			a.AddMount(&api.Mount{Destination: file, Type: "bind", Source: source, Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
		}
	}
}
