// Package cache keeps what the box builds or unpacks, by content, under one folder.
//
// An entry is a file or a folder at ROOT/KIND/KEY. It appears there at once and complete, or not at all: it is made beside its
// place under a lock of its own and then renamed. Any number of processes may ask for the same entry at the same time; one makes
// it, the others wait. A process that is killed leaves its lock to the kernel, which frees it, and its half-made entry to the
// next process that asks for the same key, which removes it.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting process looks whether the lock is free: flock can't be both waited for and cancelled.
const lockPoll = 100 * time.Millisecond

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)

// Cache is a folder of entries. The zero value is not usable; see New.
type Cache struct {
	root    string
	waiting func(kind, key string)
}

// New returns the cache in the folder root, which is made when the first entry is. waiting, which may be nil, is called once
// whenever a call has to wait for another one that makes the same entry.
func New(root string, waiting func(kind, key string)) *Cache {
	if waiting == nil {
		waiting = func(string, string) {}
	}
	return &Cache{root: root, waiting: waiting}
}

// Root returns the folder of the cache.
func (c *Cache) Root() string { return c.root }

// Dir returns the path of a folder, which make fills if it isn't there yet. make gets an empty folder (mode 0755) whose final
// name differs, so what it writes must not depend on the path. The folder must not be changed afterwards.
func (c *Cache) Dir(ctx context.Context, kind, key string, make func(ctx context.Context, dir string) error) (string, error) {
	return c.entry(ctx, kind, key, func(ctx context.Context, tmp string) error {
		if err := os.Mkdir(tmp, 0o755); err != nil {
			return err
		}
		// os.Mkdir applies the umask; a root file system with a closed top folder would shut out every other user.
		if err := os.Chmod(tmp, 0o755); err != nil {
			return err
		}
		if err := make(ctx, tmp); err != nil {
			return err
		}
		return syncFileSystem(tmp)
	})
}

// File returns the path of a file, which make writes at the path it gets if it isn't there yet.
func (c *Cache) File(ctx context.Context, kind, key string, make func(ctx context.Context, path string) error) (string, error) {
	return c.entry(ctx, kind, key, func(ctx context.Context, tmp string) error {
		if err := make(ctx, tmp); err != nil {
			return err
		}
		f, err := os.Open(tmp)
		if err != nil {
			return fmt.Errorf("open what was made: %w", err)
		}
		defer f.Close()
		return f.Sync()
	})
}

// Locked runs do while it holds the lock of kind and key, and gives it a folder (ROOT/KIND/KEY) that do may change at will. It
// is for a tool's own mutable store, which a killed process may have left in any state.
func (c *Cache) Locked(ctx context.Context, kind, key string, do func(ctx context.Context, dir string) error) error {
	dir, err := c.prepare(kind, key)
	if err != nil {
		return err
	}
	unlock, err := c.lock(ctx, kind, key)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return do(ctx, dir)
}

func (c *Cache) prepare(kind, key string) (string, error) {
	for _, name := range []string{kind, key} {
		if !validName.MatchString(name) {
			return "", fmt.Errorf("cache: %q is not a name for an entry", name)
		}
	}
	dir := filepath.Join(c.root, kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return filepath.Join(dir, key), nil
}

func (c *Cache) entry(ctx context.Context, kind, key string, make func(ctx context.Context, tmp string) error) (string, error) {
	path, err := c.prepare(kind, key)
	if err != nil {
		return "", err
	}
	if found, err := exists(path); found || err != nil {
		return path, err
	}
	unlock, err := c.lock(ctx, kind, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if found, err := exists(path); found || err != nil {
		return path, err
	}
	if err := c.makeEntry(ctx, path, make); err != nil {
		return "", fmt.Errorf("cache: make %s %s: %w", kind, key, err)
	}
	return path, nil
}

// makeEntry runs under the entry's lock.
func (c *Cache) makeEntry(ctx context.Context, path string, make func(ctx context.Context, tmp string) error) error {
	// Each try has a name of its own: a killed process may have left a child that still writes into its folder.
	leftovers, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part-*"))
	if err != nil {
		return err
	}
	for _, old := range leftovers {
		if err := removeTree(old); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	tmp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.part-%d-%d", filepath.Base(path), os.Getpid(), time.Now().UnixNano()))
	err = make(ctx, tmp)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, removeTree(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, removeTree(tmp))
	}
	parent, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

// lock takes the entry's lock and returns the function that frees it.
func (c *Cache) lock(ctx context.Context, kind, key string) (func(), error) {
	name := filepath.Join(c.root, kind, "."+key+".lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cache: lock %s %s: %w", kind, key, err)
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("cache: lock %s: %w", name, err)
		}
		if !told {
			told = true
			c.waiting(kind, key)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("cache: wait for another process that makes %s %s: %w", kind, key, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	return false, fmt.Errorf("cache: %w", err)
}

// removeTree removes a tree, but never goes into a file system that is mounted in it: a killed tool may have left /dev or /proc
// bound there.
func removeTree(path string) error {
	var top unix.Stat_t
	if err := unix.Lstat(path, &top); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("lstat %s: %w", path, err)
	}
	var foreign error
	_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil && st.Dev != top.Dev {
			foreign = fmt.Errorf("%s is a mount; unmount it first", p)
			return filepath.SkipAll
		}
		return nil
	})
	if foreign != nil {
		return foreign
	}
	return os.RemoveAll(path)
}

// syncFileSystem makes what was written under dir survive a power cut before the entry gets its name. One syncfs is far cheaper
// than an fsync for each of the ten thousand files of a root file system.
func syncFileSystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
