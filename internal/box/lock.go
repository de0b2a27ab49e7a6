package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps two commands from changing one box at the same time. The lock goes
// with the process, so a killed command leaves none.
func (b *Box) lock(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(b.lockFile()), 0o755); err != nil {
		return nil, fmt.Errorf("lock box %q: %w", b.Name, err)
	}
	told := false
	for {
		f, err := tryLock(b.lockFile())
		if err != nil {
			return nil, fmt.Errorf("lock box %q: %w", b.Name, err)
		}
		if f != nil {
			return func() { f.Close() }, nil
		}
		if !told {
			told = true
			holder, _ := os.ReadFile(b.lockFile())
			b.Report.Say("Box %q is being changed by process %s; waiting for it.", b.Name, strings.TrimSpace(string(holder)))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the other command on box %q: %w", b.Name, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (b *Box) lockFile() string { return filepath.Join(b.Root, "boxes", "."+b.Name+".lock") }

// tryLock returns the locked file, or nil if somebody else has the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(err, f.Close())
	}
	// Down removes the file: who waited for it then holds one that nobody else will find.
	if same, err := sameFile(f, path); err != nil || !same {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func sameFile(f *os.File, path string) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}
