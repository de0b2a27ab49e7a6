package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Prune removes entries of a kind that others have replaced: all but the newest keep, and none that was made after since,
// which another process may be about to use.
func (c *Cache) Prune(kind string, keep int, since time.Time) error {
	dir := filepath.Join(c.root, kind)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cache: prune %s: %w", kind, err)
	}
	var old []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !strings.HasPrefix(e.Name(), ".") {
			old = append(old, info)
		}
	}
	slices.SortFunc(old, func(x, y fs.FileInfo) int { return y.ModTime().Compare(x.ModTime()) })
	for i, info := range old {
		if i < keep || info.ModTime().After(since) {
			continue
		}
		if err := removeTree(filepath.Join(dir, info.Name())); err != nil {
			return fmt.Errorf("cache: prune %s: %w", kind, err)
		}
	}
	return nil
}
