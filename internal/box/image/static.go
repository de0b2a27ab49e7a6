package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

// Static is an image of one static binary on nothing else.
type Static struct {
	Name   string   // full reference
	Binary string   // file on this machine
	Target string   // absolute path in the image
	Args   []string // arguments after the binary, part of the entrypoint
	User   string   // UID:GID
	// Alias is another absolute path of the binary, in the same folder; empty for none.
	Alias string
	// Command: the binary is what runs if the pod says nothing, and no entrypoint.
	Command bool
}

// BuildStatic returns the image, made on the first call with this content.
func BuildStatic(ctx context.Context, c *cache.Cache, s Static) (Image, error) {
	recipe := cache.NewKey("static 1", architecture(), s.Name, s.Target, s.User).Strings(s.Args...)
	if s.Command {
		recipe = recipe.Strings("command")
	}
	if s.Alias != "" {
		recipe = recipe.Strings("alias", s.Alias)
	}
	key, err := recipe.File(s.Binary).Sum()
	if err != nil {
		return Image{}, err
	}
	dir, err := c.Dir(ctx, "image", shortName(s.Name)+"-"+key, func(ctx context.Context, dir string) error {
		layer := path.Join(dir, ".layer.tar")
		if err := writeStaticLayer(layer, s); err != nil {
			return fmt.Errorf("write the layer of %s: %w", s.Name, err)
		}
		config := v1.Config{Entrypoint: append([]string{s.Target}, s.Args...), User: s.User, WorkingDir: "/"}
		if s.Command {
			config.Cmd, config.Entrypoint = config.Entrypoint, nil
		}
		err := writeLayout(dir, s.Name, layer, config)
		if err != nil {
			return err
		}
		return os.Remove(layer)
	})
	if err != nil {
		return Image{}, err
	}
	return readLayout(dir, s.Name)
}

// writeStaticLayer writes the same bytes for the same binary: no times, no owner but root.
func writeStaticLayer(file string, s Static) error {
	in, err := os.Open(s.Binary)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	parts := strings.Split(strings.Trim(path.Dir(s.Target), "/"), "/")
	for i := range parts {
		if parts[i] == "" {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Join(parts[:i+1]...) + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(s.Target, "/"), Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(w, in); err != nil {
		return err
	}
	if s.Alias != "" {
		link := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(s.Alias, "/"), Linkname: path.Base(s.Target), Mode: 0o777}
		if err := w.WriteHeader(link); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

func architecture() string { return runtime.GOARCH }

// shortName is the last part of a reference, without its tag.
func shortName(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), ":")
	return name
}
