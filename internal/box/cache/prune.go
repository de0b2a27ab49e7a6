package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// gonePrefix begins the name of what is being removed. No key begins so.
const gonePrefix = ".gone-"

// Rule says which entries of a kind Prune leaves.
type Rule struct {
	// Keep is how many are kept of each name, those that were used last. The name of an entry is its key without the
	// last dash and what follows, "" for a key without a dash.
	Keep int
	// Since keeps what was made or used after it.
	Since time.Time
	// Used tells whether an entry, by its path, is in use although no process that asked for it lives; nil for none.
	Used func(path string) bool
}

// Prune removes entries of a kind that others have replaced. An entry that a living process was given, by this cache or
// another one of the same folder, is never removed. One that is asked for at the same time is either kept or made anew.
func (c *Cache) Prune(ctx context.Context, kind string, r Rule) error {
	dir := filepath.Join(c.root, kind)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cache: prune %s: %w", kind, err)
	}
	names := map[string][]made{}
	for _, f := range files {
		key := f.Name()
		if strings.HasPrefix(key, gonePrefix) {
			// Its process was killed, or is at it now: two may remove the same tree.
			if err := removeTree(filepath.Join(dir, key)); err != nil {
				return fmt.Errorf("cache: prune %s: %w", kind, err)
			}
		}
		if m, ok := c.made(kind, key); ok {
			name := key[:max(0, strings.LastIndex(key, "-"))]
			names[name] = append(names[name], m)
		}
	}
	for _, all := range names {
		slices.SortFunc(all, func(x, y made) int { return y.used.Compare(x.used) })
		for _, m := range all[min(r.Keep, len(all)):] {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("cache: prune %s: %w", kind, err)
			}
			if err := c.prune(kind, m.key, r); err != nil {
				return fmt.Errorf("cache: prune %s %s: %w", kind, m.key, err)
			}
		}
	}
	return nil
}

// made is an entry, and when it was made or used.
type made struct {
	key  string
	used time.Time
}

// made returns false for what is no entry, or none any more.
func (c *Cache) made(kind, key string) (made, bool) {
	entry, err := os.Lstat(filepath.Join(c.root, kind, key))
	if err != nil || !validName.MatchString(key) {
		return made{}, false
	}
	m := made{key, entry.ModTime()}
	if lock, err := os.Lstat(c.lockFile(kind, key)); err == nil && lock.ModTime().After(m.used) {
		m.used = lock.ModTime()
	}
	return m, true
}

// prune removes an entry, unless it is in use. What is left of it is never seen under its name.
func (c *Cache) prune(kind, key string, r Rule) error {
	lock, err := c.tryLock(kind, key, unix.LOCK_EX)
	if errors.Is(err, errBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	path := filepath.Join(c.root, kind, key)
	// Another process may have asked for it, and ended, since the entries were listed.
	if m, ok := c.made(kind, key); !ok || m.used.After(r.Since) || r.Used != nil && r.Used(path) {
		return nil
	}
	gone := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%s-%d", gonePrefix, key, time.Now().UnixNano()))
	if err := os.Rename(path, gone); err != nil {
		return err
	}
	return removeTree(gone)
}
