package nodeinit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDelegateCgroupsUnderV1DoesNothing(t *testing.T) {
	root := t.TempDir()
	if err := delegateCgroups(root, false); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v; want nothing", left, err)
	}
}

// A folder stands in for the kernel's files: it keeps the last of what was written to each.
func TestDelegateCgroupsUnderV2(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.procs": "1\n17\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := delegateCgroups(root, false); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"init/cgroup.procs": "17", "cgroup.subtree_control": "+memory"} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
}
