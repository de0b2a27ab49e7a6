package debian

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

// Emulator is QEMU and what it starts, a kernel with its modules.
type Emulator struct {
	// Rootfs is the root file system that QEMU runs in.
	Rootfs string
	// Kernel is a path inside Rootfs; Modules is the folder of the kernel's modules on this machine.
	Kernel, Modules string
}

// NewEmulator returns QEMU and Debian's kernel for virtual machines, made on the first call.
func NewEmulator(ctx context.Context, c *cache.Cache, out io.Writer) (Emulator, error) {
	rootfs, err := Rootfs(ctx, c, out, Spec{
		Name:    "emulator",
		Include: []string{"qemu-system-x86", "linux-image-cloud-amd64", "tini", "kmod"},
		Version: "1",
	})
	if err != nil {
		return Emulator{}, err
	}
	e := Emulator{Rootfs: rootfs}
	for pattern, path := range map[string]*string{"boot/vmlinuz-*": &e.Kernel, "usr/lib/modules/*": &e.Modules} {
		found, err := filepath.Glob(filepath.Join(rootfs, pattern))
		if err != nil || len(found) != 1 {
			return e, fmt.Errorf("find the kernel of emulated machines: %d files are %s in %s, want 1: %w", len(found), pattern, rootfs, os.ErrNotExist)
		}
		*path = found[0]
	}
	e.Kernel = e.Kernel[len(rootfs):]
	return e, nil
}
