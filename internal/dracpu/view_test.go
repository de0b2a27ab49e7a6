package dracpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// usual are the mounts of a container as containerd makes them.
func usual(more ...*api.Mount) []*api.Mount {
	return append([]*api.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"}, {Destination: "/dev", Type: "tmpfs"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup"},
		{Destination: "/etc/hosts", Type: "bind", Source: "/var/lib/kubelet/hosts"},
	}, more...)
}

func cpuinfo(n int) string {
	var out strings.Builder
	for id := range n {
		fmt.Fprintf(&out, "processor\t: %d\nmodel name\t: A\n\n", id)
	}
	return out.String() + "Hardware\t: board\n"
}

func viewer(t *testing.T, l *ledger, view string) *plugin {
	p := testPlugin(t, l)
	p.views, p.view = newViews(t.TempDir(), fstest.MapFS{"cpuinfo": {Data: []byte(cpuinfo(8))}}), view
	p.state.set(func(c *conditions) { c.synchronized = true })
	return p
}

// seen is what a new container reads from the files that are covered.
func seen(t *testing.T, p *plugin, podUID, id string, mounts []*api.Mount, env ...string) map[string]string {
	t.Helper()
	c := ctr(id, podUID, env...)
	c.Mounts = mounts
	a, _, err := p.CreateContainer(t.Context(), pod(podUID), c)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range a.GetMounts() {
		data, err := os.ReadFile(m.GetSource())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(m.GetOptions(), ","); m.GetType() != "bind" || got != "bind,ro,nosuid,nodev,noexec" {
			t.Errorf("%s is mounted as %s with %s", m.GetDestination(), m.GetType(), got)
		}
		out[m.GetDestination()] = string(data)
	}
	return out
}

// A container with a claim reads of its own CPUs alone, under their own numbers.
func TestExclusiveContainerSeesItsCPUs(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := viewer(t, l, viewExclusive)
	prepared(t, l, on("a", 0, 2, "1,3"))
	prepared(t, l, on("b", 1, 1, "4"))
	want := map[string]string{
		onlineFile:  "1,3-4\n",
		cpuinfoFile: "processor\t: 1\nmodel name\t: A\n\nprocessor\t: 3\nmodel name\t: A\n\nprocessor\t: 4\nmodel name\t: A\n\nHardware\t: board\n\n",
	}
	if diff := cmp.Diff(want, seen(t, p, "x", "x1", usual(), "DRA_CPUSET_a=1,3", "DRA_CPUSET_b=4")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := seen(t, p, "s", "s1", usual()); len(got) > 0 {
		t.Errorf("a container without a claim sees %v", got)
	}
	p.views.cpuinfo = func() ([]byte, error) { return []byte(cpuinfo(2)), nil }
	prepared(t, l, on("c", 1, 1, "7"))
	if diff := cmp.Diff(map[string]string{onlineFile: "7\n"}, seen(t, p, "y", "y1", usual(), "DRA_CPUSET_c=7")); diff != "" {
		t.Errorf("a machine that doesn't tell of its CPUs (-want +got):\n%s", diff)
	}
}

// What is not the container's own file system, or is somebody else's, isn't covered.
func TestOnlyOwnFilesAreCovered(t *testing.T) {
	host := []*api.Mount{{Destination: "/proc", Type: "proc"}, {Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "rshared"}}}
	for name, c := range map[string]struct {
		mounts []*api.Mount
		want   string
	}{
		"usual":               {usual(), onlineFile + " " + cpuinfoFile},
		"the node's /sys":     {host, cpuinfoFile},
		"both of the node's":  {usual(&api.Mount{Destination: "/sys/", Type: "bind", Source: "/sys"}, &api.Mount{Destination: "/proc", Type: "bind", Source: "/proc"}), ""},
		"a part of it":        {usual(&api.Mount{Destination: "/sys/devices", Type: "bind", Source: "/sys/devices"}), cpuinfoFile},
		"the pod's own file":  {usual(&api.Mount{Destination: onlineFile, Type: "bind", Source: "/lxcfs/online"}), cpuinfoFile},
		"lxcfs":               {usual(&api.Mount{Destination: cpuinfoFile, Type: "bind", Source: "/var/lib/lxcfs/proc/cpuinfo"}), onlineFile},
		"beside it":           {usual(&api.Mount{Destination: "/sys/devices/system/cpu/onlin", Type: "bind"}), onlineFile + " " + cpuinfoFile},
		"no /sys and no proc": {[]*api.Mount{{Destination: "/dev", Type: "tmpfs"}}, ""},
		"all of the node":     {usual(&api.Mount{Destination: "/", Type: "bind", Source: "/"}), ""},
	} {
		a := &api.ContainerAdjustment{}
		cover(a, c.mounts, map[string]string{onlineFile: "a", cpuinfoFile: "b"})
		var got []string
		for _, m := range a.GetMounts() {
			got = append(got, m.GetDestination())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: covered are %v, want %s", name, got, c.want)
		}
	}
}

// What containers without a claim see follows their CPUs, in the file that they have mounted.
func TestSharedContainersSeeTheirCPUs(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, "0"))
	p := viewer(t, l, viewAll)
	if diff := cmp.Diff(map[string]string{onlineFile: "1-7\n"}, seen(t, p, "s", "s1", usual())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mounted, err := os.Open(p.views.sharedFile("shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	reads := func(want string) {
		t.Helper()
		data := make([]byte, 64)
		n, _ := mounted.ReadAt(data, 0)
		if got := string(data[:n]); got != want {
			t.Errorf("the container reads %q, want %q", got, want)
		}
	}
	prepared(t, l, on("a", 0, 1, "2"))
	p.tidy()
	reads("1,3-7\n")
	// The next run of the driver writes the same file on.
	p.views = &views{dir: p.views.dir, cpuinfo: p.views.cpuinfo, shared: map[string]string{}}
	prepared(t, l, on("b", 1, 4, ""))
	p.tidy()
	reads("1,3\n")
	if err := l.unprepare("b")["b"]; err != nil {
		t.Fatal(err)
	}
	p.tidy()
	reads("1,3-7\n")
}

// Files stay as long as a container has the set, and not longer.
func TestViewsAreDropped(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := viewer(t, l, viewExclusive)
	prepared(t, l, on("a", 0, 2, "1,3"))
	seen(t, p, "x", "x1", usual(), "DRA_CPUSET_a=1,3")
	dir := filepath.Join(p.views.dir, "cpus-1,3")
	p.tidy()
	if _, err := os.Stat(filepath.Join(dir, "online")); err != nil {
		t.Fatal(err)
	}
	l.ended("x1")
	p.state.set(func(c *conditions) { c.synchronized = false })
	p.tidy()
	if _, err := os.Stat(dir); err != nil {
		t.Error("dropped before the runtime has told of its containers")
	}
	p.state.set(func(c *conditions) { c.synchronized = true })
	p.tidy()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("nobody has it, and it is there: %v", err)
	}
}

// A container that can't be shown its CPUs starts on them all the same; with `none` nothing is written.
func TestViewIsNoReasonToFail(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	prepared(t, l, on("a", 0, 2, "1,3"))
	p := viewer(t, l, viewExclusive)
	if err := os.WriteFile(p.views.dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	if got := seen(t, p, "x", "x1", usual(), "DRA_CPUSET_a=1,3"); len(got) > 0 {
		t.Errorf("it sees %v", got)
	}
	l.ended("x1")
	p = viewer(t, l, viewNone)
	if got := seen(t, p, "x", "x2", usual(), "DRA_CPUSET_a=1,3"); len(got) > 0 {
		t.Errorf("it sees %v", got)
	}
	if _, err := os.Stat(p.views.dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// Names of sets are names of files, however many CPUs there are, and no two sets share one.
func TestViewNames(t *testing.T) {
	var odd, even cpuset.Set
	for id := range 1024 {
		if id%2 == 0 {
			even = even.Union(cpuset.Of(id))
		} else {
			odd = odd.Union(cpuset.Of(id))
		}
	}
	names := map[string]bool{}
	for _, s := range []cpuset.Set{odd, even, set("0-3"), set("0,3")} {
		if n := viewName(s); len(n) > 255 || names[n] {
			t.Errorf("%q is too long or of two sets", n)
		} else {
			names[n] = true
		}
	}
}
