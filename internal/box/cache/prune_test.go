package cache

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPruneKeepsTheNewest(t *testing.T) {
	c := New(t.TempDir(), nil)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"oldest", "old", "new", "newest"} {
		path, err := c.File(context.Background(), "kind", name, func(_ context.Context, path string) error {
			return os.WriteFile(path, nil, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
		made := day.AddDate(0, 0, i)
		if err := os.Chtimes(path, made, made); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Prune("kind", 1, day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"oldest": false, "old": false, "new": true, "newest": true} {
		_, err := os.Stat(filepath.Join(c.Root(), "kind", name))
		if (err == nil) != want {
			t.Errorf("%s: kept is %v, want %v", name, err == nil, want)
		}
	}
	if err := c.Prune("no such kind", 1, day); err != nil {
		t.Error(err)
	}
}
