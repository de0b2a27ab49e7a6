package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/image"
	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
)

const seedContainer = "seed"

// makeSeed imports images once, into a containerd's data folder that all nodes
// start from. Importing them on each node would take longer than all the rest.
func (b *Box) makeSeed(ctx context.Context, rootfs string, images []image.Image) (string, error) {
	bundle, err := image.BundleKey(images)
	if err != nil {
		return "", err
	}
	key, err := cache.NewKey("seed 2", rootfs, containerdConfig, bundle).Sum()
	if err != nil {
		return "", err
	}
	seed, err := b.Cache.Dir(ctx, "seed", key, func(ctx context.Context, dir string) error {
		archive := b.containerDir(seedContainer, "images.tar")
		if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
			return err
		}
		f, err := os.Create(archive)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := image.WriteBundle(ctx, f, images); err != nil {
			return err
		}
		return b.importImages(ctx, rootfs, archive, dir)
	})
	if err != nil {
		return "", err
	}
	// Nodes keep their files by links of their own, so seeds of earlier images can go.
	b.prune(ctx, "seed", 2)
	return seed, nil
}

func (b *Box) importImages(ctx context.Context, rootfs, archive, dir string) (err error) {
	c := container{
		name: seedContainer, rootfs: rootfs, isolated: true,
		binds:    map[string]string{"/var/lib/containerd": dir},
		readonly: map[string]string{"/images.tar": archive},
		init: nodeinit.Config{LogDir: "/logs", Folders: []string{"/run/containerd"}, Services: []nodeinit.Service{
			containerdService(),
			{Name: "import", Once: true, Args: []string{"ctr", "--namespace", "k8s.io", "images", "import", "/images.tar"}},
			{Name: "done", Once: true, Args: []string{"touch", "/logs/imported"}},
		}},
	}
	if err := replaceFile(b.containerDir(seedContainer, "conf", "containerd.toml"), []byte(containerdConfig), 0o644); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.remove(context.WithoutCancel(ctx), seedContainer), os.RemoveAll(b.containerDir(seedContainer)))
	}()
	if err := b.start(ctx, c); err != nil {
		return err
	}
	return b.waitForImport(ctx)
}

// waitForImport waits until the seed's last service has run or its first process has ended.
func (b *Box) waitForImport(ctx context.Context) error {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		if exists(b.containerDir(seedContainer, "logs", "imported")) {
			return nil
		}
		status, err := b.status(ctx, seedContainer)
		if err != nil {
			return err
		}
		if status != "running" && !exists(b.containerDir(seedContainer, "logs", "imported")) {
			return fmt.Errorf("import images: %s\n%s", fileTail(b.containerDir(seedContainer, "logs", "init.log")),
				fileTail(b.containerDir(seedContainer, "logs", "import.log")))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// plantSeed gives a node its own containerd data that shares the images' files
// with the seed by hard links: containerd only ever adds or removes them, and
// overlays copy a file before a container writes to it. Its databases are copied.
func plantSeed(ctx context.Context, seed, dir string) error {
	if exists(filepath.Join(dir, ".planted")) {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := hostcmd.Run(ctx, hostcmd.Cmd{Args: []string{"cp", "--archive", "--link", seed, dir}}); err != nil {
		return err
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "snapshots" || d.Name() == "blobs") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return replaceFile(path, data, info.Mode().Perm())
	})
	if err != nil {
		return fmt.Errorf("copy containerd's databases: %w", err)
	}
	return replaceFile(filepath.Join(dir, ".planted"), nil, 0o600)
}
