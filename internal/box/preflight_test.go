package box

import (
	"strings"
	"testing"
)

func goodHost() Host {
	return Host{
		Filesystems: "nodev\tproc\nnodev\tsysfs\nnodev\ttmpfs\nnodev\toverlay\n",
		Mounts:      "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		Controllers: "cpuset cpu io memory hugetlb pids rdma misc\n",
		MemInfo:     "MemTotal: 16000000 kB\nMemAvailable:   15000000 kB\n",
		FreeDisk:    64 << 30, OpenFiles: 20000, HasAptGet: true, HasGo: true,
	}
}

func TestPreflight(t *testing.T) {
	v1 := "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"
	for name, c := range map[string]struct {
		change func(*Host)
		warm   bool
		want   string
	}{
		"a good machine":         {func(*Host) {}, false, ""},
		"cgroup v1":              {func(h *Host) { h.Mounts, h.Controllers = v1, "" }, false, ""},
		"not root":               {func(h *Host) { h.UID = 1000 }, false, "needs root"},
		"no apt-get":             {func(h *Host) { h.HasAptGet = false }, false, "Debian"},
		"no go":                  {func(h *Host) { h.HasGo = false }, false, "install Go"},
		"kernel without overlay": {func(h *Host) { h.Filesystems = "nodev\tproc\nnodev\tsysfs\nnodev\ttmpfs\n" }, false, "no overlay"},
		"no cgroups":             {func(h *Host) { h.Mounts, h.Controllers = "", "" }, false, "cpu, cpuset, memory, pids"},
		"v1 without cpuset":      {func(h *Host) { h.Mounts, h.Controllers = strings.ReplaceAll(v1, "cpuset", "x"), "" }, false, "controllers cpuset "},
		"v2 without memory":      {func(h *Host) { h.Controllers = "cpuset cpu io pids\n" }, false, "controllers memory "},
		"few open files":         {func(h *Host) { h.OpenFiles = 1024 }, false, "only 1024 files"},
		"little memory":          {func(h *Host) { h.MemInfo = "MemAvailable: 2097152 kB\n" }, false, "2048 MiB of memory"},
		"little disk, cold":      {func(h *Host) { h.FreeDisk = 8 << 30 }, false, "8192 MiB free"},
		"little disk, warm":      {func(h *Host) { h.FreeDisk = 8 << 30 }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := goodHost()
			c.change(&h)
			err := h.check(c.warm)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"slinky": true, "a": true, "test-2": true,
		"": false, "-a": false, "a-": false, "A": false, "../x": false, "a b": false, strings.Repeat("a", 21): false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestCountIdle(t *testing.T) {
	workers, external := countIdle("cpu-0 idle\ncpu-0 idle\ncpu-1 down*\nnode-2 mixed\nnode-3 idle*\nnode-4 drained\n\n")
	if workers != 1 || external != 2 {
		t.Errorf("got %d workers and %d of the box's nodes, want 1 and 2", workers, external)
	}
}
