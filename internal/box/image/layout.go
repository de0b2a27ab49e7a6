package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is one built image.
type Image struct {
	Name   string // full reference, such as ghcr.io/slinky-hpc/slurmd:26.05-debian
	Digest string // of its manifest, sha256:...
	Layout string // OCI layout folder in the cache that holds this image alone
}

// fileLayer is an uncompressed layer that stays in its file.
type fileLayer struct {
	path   string
	digest v1.Hash
	size   int64
}

func newFileLayer(path string) (*fileLayer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest, size, err := v1.SHA256(f)
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", path, err)
	}
	return &fileLayer{path: path, digest: digest, size: size}, nil
}

func (l *fileLayer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *fileLayer) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l *fileLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l *fileLayer) Size() (int64, error)                 { return l.size, nil }
func (l *fileLayer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }

// writeLayout writes an image of one layer as an OCI layout.
func writeLayout(dir, name, layerPath string, config v1.Config) error {
	layer, err := newFileLayer(layerPath)
	if err != nil {
		return err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return fmt.Errorf("add the layer of %s: %w", name, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", architecture(), config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return fmt.Errorf("set the configuration of %s: %w", name, err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendImage(img, layout.WithAnnotations(map[string]string{refAnnotation: name}))
}

// dirToLayout moves an image from a folder in the format of `buildah push dir:`, one manifest and blobs by digest, into a layout.
func dirToLayout(from, dir, name string) error {
	text, err := os.ReadFile(filepath.Join(from, "manifest.json"))
	if err != nil {
		return err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the manifest of %s: %w", name, err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := path.WriteBlob(digest, io.NopCloser(bytes.NewReader(text))); err != nil {
		return err
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		target := filepath.Join(dir, "blobs", d.Digest.Algorithm, d.Digest.Hex)
		// Two layers may be the same blob, which is moved only once.
		if err := os.Rename(filepath.Join(from, d.Digest.Hex), target); err != nil && !exists(target) {
			return err
		}
	}
	return path.AppendDescriptor(v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Digest: digest, Size: size, Annotations: map[string]string{refAnnotation: name},
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLayout returns the one image in a layout.
func readLayout(dir, name string) (Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return Image{}, fmt.Errorf("read the layout of %s: %w", name, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return Image{}, fmt.Errorf("read the layout of %s: %w", name, err)
	}
	if len(manifest.Manifests) != 1 {
		return Image{}, fmt.Errorf("the layout of %s in %s holds %d images, want 1", name, dir, len(manifest.Manifests))
	}
	return Image{Name: name, Digest: manifest.Manifests[0].Digest.String(), Layout: dir}, nil
}

// shareBlobs replaces blobs that both layouts hold by hard links, so that a base is on disk once.
func shareBlobs(ctx context.Context, dir, parent string) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	entries, err := os.ReadDir(blobs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		linked := filepath.Join(dir, ".link")
		err := os.Link(filepath.Join(parent, "blobs", "sha256", e.Name()), linked)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Rename(linked, filepath.Join(blobs, e.Name())); err != nil {
			return err
		}
		if err := os.Remove(linked); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err // rename does nothing when both names are the same file already
		}
	}
	return nil
}
