package dracpu

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
)

// The end of the log is kept as it was written, and no more of it than the bound.
func TestRecent(t *testing.T) {
	r := &Recent{}
	log := r.Keep(testr.New(t)).WithName("nri").WithValues("node", "n")
	log.V(4).Info("too quiet")
	for range recentLines {
		log.Info("again")
	}
	log.Error(errors.New("no such file"), "A claim is lost", "claim", strings.Repeat("x", 2*recentLength))
	lines := r.Lines()
	last := lines[len(lines)-1]
	if len(lines) != recentLines || !strings.Contains(last, "nri") || !strings.Contains(last, "A claim is lost") || !strings.Contains(last, "no such file") ||
		len(last) > recentLength+3 || strings.Contains(strings.Join(lines, "\n"), "too quiet") {
		t.Errorf("%d lines, the last is %s", len(lines), last)
	}
}

// Containers are found by their IDs, as systemd's and as the other driver name them, with cgroup v2 and v1.
func TestCgroups(t *testing.T) {
	v2 := fstest.MapFS{
		"cgroup.controllers": {},
		"kubepods.slice/kubepods-podx.slice/cri-containerd-abc.scope/cpuset.cpus.effective": {Data: []byte("1-2\n")},
		"kubepods.slice/kubepods-podx.slice/cri-containerd-abc.scope/cpuset.mems.effective": {Data: []byte("0\n")},
		"kubepods.slice/kubepods-podx.slice/cri-containerd-abc.scope/cpu.max":               {Data: []byte("max 100000\n")},
	}
	v1 := fstest.MapFS{
		"cpuset/kubepods/podx/abc/cpuset.effective_cpus": {Data: []byte("1-2\n")},
		"cpuset/kubepods/podx/abc/cpuset.effective_mems": {Data: []byte("0\n")},
		"cpu/kubepods/podx/abc/cpu.cfs_quota_us":         {Data: []byte("-1\n")},
	}
	for name, x := range map[string]struct {
		tree fstest.MapFS
		want Cgroup
	}{
		"v2": {v2, Cgroup{"kubepods.slice/kubepods-podx.slice/cri-containerd-abc.scope", "1-2", "0", "max 100000"}},
		"v1": {v1, Cgroup{"cpuset/kubepods/podx/abc", "1-2", "0", "-1"}},
	} {
		got, err := Cgroups(x.tree, []string{"abc", "def", ""})
		if diff := cmp.Diff(map[string]Cgroup{"abc": x.want}, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
