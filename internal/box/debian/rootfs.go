package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// Spec says what is in a root file system.
type Spec struct {
	Name    string   // in the cache and in messages
	Include []string // packages beside Debian's minimal set
	// Finish, if not nil, works on the unpacked tree. Version must change when Finish does.
	Finish  func(ctx context.Context, dir string) error
	Version string
}

// Rootfs returns the folder of an unpacked Debian root file system, made on the first call. It has no documentation, no package
// lists, no apt sources and no machine's settings. It must be used read-only. Progress goes to out.
func Rootfs(ctx context.Context, c *cache.Cache, out io.Writer, spec Spec) (string, error) {
	key, err := specKey(spec)
	if err != nil {
		return "", err
	}
	return c.Dir(ctx, "rootfs", spec.Name+"-"+key, func(ctx context.Context, dir string) error {
		if err := bootstrap(ctx, out, spec, dir); err != nil {
			return err
		}
		if err := strip(dir); err != nil {
			return err
		}
		if spec.Finish == nil {
			return nil
		}
		return spec.Finish(ctx, dir)
	})
}

// specKey leaves package versions out on purpose: the suite moves, and what works is kept until the list changes or the cache is
// emptied.
func specKey(spec Spec) (string, error) {
	return cache.NewKey("rootfs 2", Suite, spec.Name, spec.Version).Strings(bootstrapOptions()...).Strings(spec.Include...).Sum()
}

func bootstrapOptions() []string {
	options := []string{"--mode=root", "--variant=minbase"}
	for _, p := range []string{"doc", "man", "locale", "info", "lintian", "bash-completion"} {
		options = append(options, "--dpkgopt=path-exclude=/usr/share/"+p+"/*")
	}
	return options
}

func bootstrap(ctx context.Context, out io.Writer, spec Spec, dir string) error {
	if err := EnsureHostPackages(ctx, out, "mmdebstrap"); err != nil {
		return err
	}
	mirror, err := Mirror(ctx)
	if err != nil {
		return err
	}
	fetch, err := FetchOptions(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"mmdebstrap"}, bootstrapOptions()...)
	for _, o := range fetch {
		args = append(args, "--aptopt="+strings.TrimSuffix(o, ";"))
	}
	if len(spec.Include) > 0 {
		args = append(args, "--include="+strings.Join(spec.Include, ","))
	}
	args = append(args, "--format=directory", Suite, dir, mirror)
	fmt.Fprintf(out, "unpacking Debian %s for %s\n", Suite, spec.Name)
	env := append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	if err := hostcmd.Run(ctx, hostcmd.Cmd{Args: args, Env: env, Out: out, Contained: true}); err != nil {
		return fmt.Errorf("make the root file system %s from %s: %w", spec.Name, mirror, err)
	}
	return nil
}

// strip takes out what belongs to the machine and to the moment that the tree was made.
func strip(dir string) error {
	for _, name := range []string{
		"etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
		"etc/machine-id", "var/lib/dbus/machine-id", "var/cache/debconf", "var/cache/ldconfig/aux-cache", "var/log/apt", "var/log/dpkg.log", "var/log/alternatives.log", "var/log/bootstrap.log",
	} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"var/lib/apt/lists", "var/cache/apt", "run", "tmp"} {
		if err := emptyDir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	// Whoever runs the tree mounts files of its own over these, and needs something to mount over.
	for _, name := range []string{"etc/hostname", "etc/hosts", "etc/resolv.conf"} {
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	// Later installs into the tree keep leaving out what the first one did.
	var keepOut strings.Builder
	for _, o := range bootstrapOptions() {
		if line, ok := strings.CutPrefix(o, "--dpkgopt="); ok {
			keepOut.WriteString(line + "\n")
		}
	}
	return os.WriteFile(filepath.Join(dir, "etc/dpkg/dpkg.cfg.d/slim"), []byte(keepOut.String()), 0o644)
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
