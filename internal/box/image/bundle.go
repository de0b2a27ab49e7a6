package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

const (
	refAnnotation        = "org.opencontainers.image.ref.name"
	containerdAnnotation = "io.containerd.image.name"
)

// BundleKey is a name for a set of images that changes when one of them does.
func BundleKey(images []Image) (string, error) {
	key := cache.NewKey("bundle 1")
	for _, i := range images {
		key.Strings(i.Name, i.Digest)
	}
	return key.Sum()
}

// Bundle returns one OCI archive with all images, in which they share their layers. `ctr images import` takes it.
func Bundle(ctx context.Context, c *cache.Cache, images []Image) (string, error) {
	key, err := BundleKey(images)
	if err != nil {
		return "", err
	}
	return c.File(ctx, "images", key+".tar", func(ctx context.Context, path string) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := WriteBundle(ctx, f, images); err != nil {
			return err
		}
		return f.Close()
	})
}

// WriteBundle writes the archive of Bundle to w, for a reader that needs no file.
func WriteBundle(ctx context.Context, w io.Writer, images []Image) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	out := tar.NewWriter(w)
	written := map[string]bool{}
	for _, i := range images {
		descriptor, err := descriptorOf(i)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, descriptor)
		blobs, err := os.ReadDir(filepath.Join(i.Layout, "blobs", "sha256"))
		if err != nil {
			return fmt.Errorf("read the blobs of %s: %w", i.Name, err)
		}
		for _, b := range blobs {
			name := "blobs/sha256/" + b.Name()
			if written[name] {
				continue
			}
			written[name] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := addFile(out, name, filepath.Join(i.Layout, name)); err != nil {
				return fmt.Errorf("add %s of %s: %w", name, i.Name, err)
			}
		}
	}
	for name, value := range map[string]any{"index.json": index, "oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"}} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}

// descriptorOf returns the image's descriptor with the full name where containerd and others look for it.
func descriptorOf(i Image) (v1.Descriptor, error) {
	index, err := layout.ImageIndexFromPath(i.Layout)
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, d := range manifest.Manifests {
		if d.Digest.String() == i.Digest {
			d.Annotations = map[string]string{refAnnotation: i.Name, containerdAnnotation: i.Name}
			return d, nil
		}
	}
	return v1.Descriptor{}, fmt.Errorf("%s holds no image %s", i.Layout, i.Digest)
}

func addFile(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
