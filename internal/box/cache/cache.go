// Package cache keeps what the box builds or unpacks, by content, under one folder.
//
// An entry is a file or a folder at ROOT/KIND/KEY. It appears there at once and complete, or not at all: it is made beside its
// place under a lock of its own and then renamed. Any number of processes may ask for the same entry at the same time; one makes
// it, the others wait. A process that is killed leaves its lock to the kernel, which frees it, and its half-made entry to the
// next process that asks for the same key, which removes it.
//
// Who was given an entry shares its lock for as long as the process lives, so that Prune in another process leaves it alone.
// The lock's file tells when the entry was last asked for.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
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

	mu sync.Mutex
	// leases are the shared locks of the entries that were given out, by their paths: file descriptors, which
	// are open until the process ends. Go would close a file that nobody refers to any more.
	leases map[string]int
}

// New returns the cache in the folder root, which is made when the first entry is. waiting, which may be nil, is called once
// whenever a call has to wait for another one that makes the same entry.
func New(root string, waiting func(kind, key string)) *Cache {
	if waiting == nil {
		waiting = func(string, string) {}
	}
	return &Cache{root: root, waiting: waiting, leases: map[string]int{}}
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
	lock, err := c.tryLock(kind, key, unix.LOCK_EX)
	for told := false; errors.Is(err, errBusy); lock, err = c.tryLock(kind, key, unix.LOCK_EX) {
		if err := c.wait(ctx, kind, key, &told); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	defer lock.Close()
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
	for told := false; ; {
		found, err := c.lease(kind, key, path)
		if found {
			return path, nil
		}
		if err == nil {
			err = c.makeLocked(ctx, kind, key, path, make)
		}
		switch {
		case errors.Is(err, errBusy):
			// Who makes it now shares the lock from then on, so what is waited for is the entry and not the lock.
			err = c.wait(ctx, kind, key, &told)
		case err != nil:
			err = fmt.Errorf("cache: make %s %s: %w", kind, key, err)
		}
		if err != nil {
			return "", err
		}
	}
}

// lease tells whether an entry is there, and keeps it there while this process lives.
func (c *Cache) lease(kind, key, path string) (bool, error) {
	lock, err := c.tryLock(kind, key, unix.LOCK_SH)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	found, err := exists(path)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	had, leased := c.leases[path]
	switch {
	case found && !leased:
		if c.leases[path], err = unix.FcntlInt(lock.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			delete(c.leases, path)
			return false, fmt.Errorf("keep lock %s: %w", lock.Name(), err)
		}
	case !found && leased: // somebody has removed it by hand
		delete(c.leases, path)
		return false, unix.Close(had)
	}
	if found {
		// Who may not write the file can't tell, and the entry counts as used when it was made.
		now := time.Now()
		_ = os.Chtimes(lock.Name(), now, now)
	}
	return found, nil
}

// makeLocked makes an entry under its lock, unless another process has.
func (c *Cache) makeLocked(ctx context.Context, kind, key, path string, make func(ctx context.Context, tmp string) error) error {
	lock, err := c.tryLock(kind, key, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	if found, err := exists(path); found || err != nil {
		return err
	}
	return c.makeEntry(ctx, path, make)
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

// errBusy says that another has a lock.
var errBusy = errors.New("locked by another process")

// wait waits a moment for another process, which it tells of once.
func (c *Cache) wait(ctx context.Context, kind, key string, told *bool) error {
	if !*told {
		*told = true
		c.waiting(kind, key)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("cache: wait for another process that makes %s %s: %w", kind, key, context.Cause(ctx))
	case <-time.After(lockPoll):
		return nil
	}
}

// tryLock takes the entry's lock, LOCK_EX for oneself or LOCK_SH shared. Closing the file frees it.
func (c *Cache) tryLock(kind, key string, how int) (*os.File, error) {
	mode := os.O_RDWR
	if how == unix.LOCK_SH {
		mode = os.O_RDONLY // of a cache that another user has filled
	}
	f, err := os.OpenFile(c.lockFile(kind, key), os.O_CREATE|mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s %s: %w", kind, key, err)
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = errBusy
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
}

func (c *Cache) lockFile(kind, key string) string {
	return filepath.Join(c.root, kind, "."+key+".lock")
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	return false, err
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
