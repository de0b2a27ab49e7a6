package main

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCopyShowsDrift(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a/gen.go": "old", "run.sh": "#!/bin/sh", ".git/HEAD": "x", "bin/tool": "x"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(to, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the script's copy: %v, %v; want it executable", info, err)
	}
	before, err := sums(to)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bool{"a/gen.go": true, "run.sh": true}, keys(before)); d != "" {
		t.Errorf("copied files (-want +got):\n%s", d)
	}
	for name, text := range map[string]string{"a/gen.go": "new", "b.go": "new"} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(to, "run.sh")); err != nil {
		t.Fatal(err)
	}
	after, err := sums(to)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a/gen.go", "b.go", "run.sh"}, differing(before, after)); d != "" {
		t.Errorf("drift (-want +got):\n%s", d)
	}
	if got := differing(before, before); len(got) != 0 {
		t.Errorf("nothing changed, yet: %q", got)
	}
}

func keys(m map[string][sha256.Size]byte) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}
