package dracpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Cgroup is what the kernel lets a container run on.
type Cgroup struct {
	Path string `json:"path"` // below /sys/fs/cgroup
	CPUs string `json:"cpus"`
	Mems string `json:"mems"`
	// Quota is the CFS quota, as the kernel writes it.
	Quota string `json:"quota,omitempty"`
}

// Cgroups finds the control groups of containers by their IDs.
func Cgroups(cgroups fs.FS, ids []string) (map[string]Cgroup, error) {
	files := [3]string{"cpuset.cpus.effective", "cpuset.mems.effective", "cpu.max"}
	top, quota := ".", "."
	if _, err := fs.Stat(cgroups, "cgroup.controllers"); err != nil { // v1
		files, top, quota = [3]string{"cpuset.effective_cpus", "cpuset.effective_mems", "cpu.cfs_quota_us"}, "cpuset", "cpu"
	}
	out := map[string]Cgroup{}
	err := fs.WalkDir(cgroups, top, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != top:
			return nil // It went away while we looked.
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		for _, id := range ids {
			if id == "" || !strings.Contains(d.Name(), id) {
				continue
			}
			below := strings.TrimPrefix(dir, top)
			out[id] = Cgroup{dir, text(cgroups, path.Join(dir, files[0])), text(cgroups, path.Join(dir, files[1])), text(cgroups, path.Join(quota, below, files[2]))}
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("look for the containers' cgroups: %w", err)
	}
	return out, nil
}

func text(files fs.FS, name string) string {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
