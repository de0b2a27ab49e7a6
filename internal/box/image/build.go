package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/debian"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// entrypointPackage is the first process of the images with a Dockerfile.
const entrypointPackage = "./images/entrypoint"

// Options say what to build from what.
type Options struct {
	Cache  *cache.Cache
	Source string    // checkout with images/ and cmd/
	Names  []string  // of Names; their parents are built too
	Out    io.Writer // progress: what the tools print
}

// Build makes the images that the cache doesn't hold yet and returns the ones that were asked for, in the order of Names. Needs
// root for images with a Dockerfile.
func Build(ctx context.Context, o Options) ([]Image, error) {
	chosen, err := choose(o.Names)
	if err != nil {
		return nil, err
	}
	binaries, err := goBuild(ctx, o, chosen)
	if err != nil {
		return nil, err
	}
	built := map[string]Image{}
	var out []Image
	for _, r := range chosen {
		var img Image
		switch {
		case r.pkg != "":
			img, err = BuildStatic(ctx, o.Cache, r.static(binaries[r.pkg]))
		case r.parent != "":
			img, err = buildDockerfile(ctx, o, dockerfile{
				recipe: r, parent: built[r.parent], part: built[r.part], context: r.context(o.Source, binaries),
			})
		default:
			img, err = buildDebian(ctx, o, r)
		}
		if err != nil {
			return nil, fmt.Errorf("build image %s: %w", r.name, err)
		}
		built[r.name] = img
		if slices.Contains(o.Names, r.name) {
			out = append(out, img)
		}
	}
	return out, nil
}

func (r recipe) static(binary string) Static {
	s := Static{Name: r.ref, Binary: binary, Target: "/usr/bin/program", User: r.user}
	if r.target != "" {
		s.Target, s.Alias, s.Command = r.target, r.alias, true
	}
	return s
}

// context is what a Dockerfile finds in its build context, by name.
func (r recipe) context(source string, binaries map[string]string) map[string]string {
	out := map[string]string{filepath.Base(entrypointPackage): binaries[entrypointPackage]}
	for _, p := range r.programs {
		out[filepath.Base(p)] = binaries[p]
	}
	for _, f := range r.files {
		out[filepath.Base(f)] = filepath.Join(source, f)
	}
	return out
}

// goBuild builds the Go programs that the recipes need and returns their files by package.
func goBuild(ctx context.Context, o Options, chosen []recipe) (map[string]string, error) {
	var packages []string
	for _, r := range chosen {
		if r.pkg != "" {
			packages = append(packages, r.pkg)
		}
		if r.parent != "" && !slices.Contains(packages, entrypointPackage) {
			packages = append(packages, entrypointPackage)
		}
		packages = append(packages, r.programs...)
	}
	if len(packages) == 0 {
		return nil, nil
	}
	files := map[string]string{}
	// The folder keeps its binaries, so that go links only what has changed; what images are made of are copies.
	err := o.Cache.Locked(ctx, "go", "images", func(ctx context.Context, dir string) error {
		args := append([]string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + "/"}, packages...)
		err := hostcmd.Run(ctx, hostcmd.Cmd{Args: args, Env: append(os.Environ(), "CGO_ENABLED=0"), Dir: o.Source, Out: o.Out})
		if err != nil {
			return fmt.Errorf("build the images' programs: %w", err)
		}
		for _, p := range packages {
			file, err := keepFile(ctx, o.Cache, filepath.Join(dir, filepath.Base(p)))
			if err != nil {
				return err
			}
			files[p] = file
		}
		return nil
	})
	return files, err
}

// keepFile copies a file that may change later into the cache under its content.
func keepFile(ctx context.Context, c *cache.Cache, path string) (string, error) {
	key, err := cache.NewKey("program").File(path).Sum()
	if err != nil {
		return "", err
	}
	return c.File(ctx, "program", filepath.Base(path)+"-"+key, func(ctx context.Context, to string) error {
		return copyFile(path, to)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// buildDebian makes the base image from Debian's packages.
func buildDebian(ctx context.Context, o Options, r recipe) (Image, error) {
	root, err := debian.Rootfs(ctx, o.Cache, o.Out, debian.Spec{Name: "image-base", Include: []string{"procps"}, Version: "1"})
	if err != nil {
		return Image{}, err
	}
	dir, err := o.Cache.Dir(ctx, "image", "debian-"+filepath.Base(root), func(ctx context.Context, dir string) error {
		layer := filepath.Join(dir, ".layer.tar")
		// Runtimes make /dev, /proc and /sys themselves; device files would only ask for privileges when a layer is unpacked.
		err := hostcmd.Run(ctx, hostcmd.Cmd{Out: o.Out, Args: []string{
			"tar", "--create", "--file=" + layer, "--directory=" + root, "--sort=name", "--numeric-owner", "--xattrs", "--one-file-system",
			"--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", ".",
		}})
		if err != nil {
			return err
		}
		err = writeLayout(dir, r.ref, layer, v1.Config{
			Cmd: []string{"bash"},
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		})
		if err != nil {
			return err
		}
		return os.Remove(layer)
	})
	if err != nil {
		return Image{}, err
	}
	return readLayout(dir, r.ref)
}
