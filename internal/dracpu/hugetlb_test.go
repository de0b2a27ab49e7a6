package dracpu

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestHugetlb(t *testing.T) {
	for name, c := range map[string]struct {
		cgroups fs.FS
		want    bool
	}{
		"v2":            {fstest.MapFS{"cgroup.controllers": {Data: []byte("cpuset cpu io memory hugetlb pids\n")}}, true},
		"v2 without it": {fstest.MapFS{"cgroup.controllers": {Data: []byte("cpuset cpu io memory pids\n")}}, false},
		"v1":            {fstest.MapFS{"hugetlb/tasks": {}}, true},
		"v1 without it": {fstest.MapFS{"memory/tasks": {}}, false},
	} {
		if got := hugetlb(c.cgroups); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
