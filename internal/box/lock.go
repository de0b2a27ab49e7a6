package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps two commands from changing one box at the same time. The lock goes
// with the process, so a killed command leaves none.
func (b *Box) lock(ctx context.Context) (func(), error) {
	path := filepath.Join(b.Root, "boxes", "."+b.Name+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock box %q: %w", b.Name, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock box %q: %w", b.Name, err)
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			_ = f.Truncate(0)
			_, _ = f.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock box %q: %w", b.Name, err)
		}
		if !told {
			told = true
			holder, _ := os.ReadFile(path)
			b.Report.Say("Box %q is being changed by process %s; waiting for it.", b.Name, strings.TrimSpace(string(holder)))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the other command on box %q: %w", b.Name, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
