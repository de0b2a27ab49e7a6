package box

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCgroupsPath(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(v2, "cgroup.controllers"), []byte("cpu memory\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{v1: "slinky-a/node-1", v2: "/slinky-a/node-1"} {
		if got := cgroupsPath(root, "slinky-a/node-1"); got != want {
			t.Errorf("cgroupsPath(%s) = %q, want %q", root, got, want)
		}
	}
}
