package container

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errBusy says that another process has the lock.
var errBusy = errors.New("it is in use")

// held is a lock on a file, which goes with the last process that has the file open.
type held struct{ file *os.File }

func (h held) release() { _ = h.file.Close() }

// lock takes the lock of the path and waits for it, or returns errBusy.
func lock(path string, wait bool) (held, error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return held{}, err
		}
		if err := flock(f, how); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return held{}, errBusy
			}
			return held{}, fmt.Errorf("lock %s: %w", path, err)
		}
		// Whoever held it before may have removed the file: then this is a lock on nothing.
		mine, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return held{}, err
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return held{f}, nil
		}
		_ = f.Close()
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
