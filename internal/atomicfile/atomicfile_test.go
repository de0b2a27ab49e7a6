package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, d := range []Durability{Flushed, Cached} {
		for _, text := range []string{"one", "", "three"} {
			if err := Replace(path, []byte(text), 0o640, d); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != text {
				t.Errorf("the file has %q, want %q: %v", got, text, err)
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v: %v", info.Mode(), err)
	}

	// What can't be put in place leaves nothing behind.
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(folder, []byte("x"), 0o600, Flushed); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := Replace(filepath.Join(dir, "none", "f"), nil, 0o600, Cached); err == nil {
		t.Error("a file was made in a folder that isn't there")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("there is %v: %v", left, err)
	}
}
