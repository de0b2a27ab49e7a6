package prom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// needsSlurm skips a test outside of the stage of real Slurm.
func needsSlurm(t testing.TB) {
	t.Helper()
	if os.Getenv(slurmtest.Variable) != "1" {
		t.Skipf("needs Debian's Prometheus and a real Slurm: set %s=1 to run it", slurmtest.Variable)
	}
}

// program returns the path of Debian's "prometheus" or "promtool".
func program(t testing.TB, name string) string {
	t.Helper()
	needsSlurm(t)
	dir, err := unpack(t.Context())
	if err != nil {
		t.Fatalf("get Debian's Prometheus: %v", err)
	}
	return filepath.Join(dir, "usr", "bin", name)
}

// unpack returns a folder with the package's files, of the version that this machine's apt offers. Several processes
// may ask at once.
func unpack(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(cache, "slinky", "prometheus")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	dir := filepath.Join(base, "files")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return "", err
	}
	if _, err := run(ctx, partial, "apt-get", "download", "prometheus"); err != nil {
		// The list of packages may be old, or not there yet.
		if _, err := run(ctx, partial, "apt-get", "update"); err != nil {
			return "", err
		}
		if _, err := run(ctx, partial, "apt-get", "download", "prometheus"); err != nil {
			return "", err
		}
	}
	files, err := filepath.Glob(filepath.Join(partial, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", errors.Join(fmt.Errorf("apt-get download left %d packages", len(files)), err)
	}
	if _, err := run(ctx, partial, "dpkg-deb", "--extract", files[0], partial); err != nil {
		return "", err
	}
	if err := os.Remove(files[0]); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
}

func run(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out.String())
	}
	return out.String(), nil
}
