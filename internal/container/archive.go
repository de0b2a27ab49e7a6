package container

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// image is what one image in an archive consists of.
type image struct {
	id     string // hash of its configuration
	config v1.Config
	layers []layer
}

type layer struct {
	diff v1.Hash // of the uncompressed content
	blob blob
}

type blob struct{ offset, size int64 }

// archive is a tar file as `docker save` writes it, or an OCI layout in a tar file. It is read in place.
type archive struct {
	file  *os.File
	blobs map[string]blob
}

// maxDocument bounds the JSON files of an archive, which are read into memory.
const maxDocument = 16 << 20

func openArchive(f *os.File) (*archive, error) {
	a := &archive{file: f, blobs: map[string]blob{}}
	links := map[string]string{}
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is no image archive: %w", err)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			// The tar reader takes whole blocks, so the file stands where the content begins.
			offset, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.blobs[name] = blob{offset, h.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		}
	}
	for name, target := range links {
		if b, ok := a.blobs[target]; ok {
			a.blobs[name] = b
		}
	}
	return a, nil
}

func (a *archive) document(name string, v any) error {
	b, ok := a.blobs[name]
	if !ok {
		return fmt.Errorf("%s is missing in the archive", name)
	}
	if b.size > maxDocument {
		return fmt.Errorf("%s has %d bytes, which is too much for a description", name, b.size)
	}
	text := make([]byte, b.size)
	if _, err := a.file.ReadAt(text, b.offset); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// candidate is one image of an archive, by the files that describe it.
type candidate struct {
	names  []string
	config string
	layers []string
}

// image returns the only image, or the one of the name.
func (a *archive) image(name string) (image, error) {
	var all []candidate
	var err error
	switch {
	case a.has("manifest.json"):
		all, err = a.docker()
	case a.has("index.json"):
		all, err = a.oci("index.json", nil, 0)
	default:
		err = errors.New("it is no image archive: it has neither manifest.json nor index.json")
	}
	if err != nil {
		return image{}, err
	}
	found := all
	if name != "" {
		found = slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !slices.ContainsFunc(c.names, sameName(name)) })
	}
	if len(found) != 1 {
		return image{}, chooseError(name, all)
	}
	return a.load(found[0])
}

func (a *archive) has(name string) bool {
	_, ok := a.blobs[name]
	return ok
}

// sameName takes short names as docker does.
func sameName(want string) func(string) bool {
	return func(have string) bool {
		have = strings.TrimPrefix(strings.TrimPrefix(have, "docker.io/"), "library/")
		want := strings.TrimPrefix(strings.TrimPrefix(want, "docker.io/"), "library/")
		return have == want || have == want+":latest"
	}
}

func chooseError(name string, all []candidate) error {
	var names []string
	for _, c := range all {
		names = append(names, c.names...)
	}
	have := "it has none with a name"
	if len(names) > 0 {
		have = "it has " + strings.Join(names, ", ")
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("it has no image for %s/%s", "linux", runtime.GOARCH)
	case name != "":
		return fmt.Errorf("it has no image %s; %s", name, have)
	}
	return fmt.Errorf("it holds %d images; choose one by PATH#NAME: %s", len(all), have)
}

// docker reads what `docker save` and `crane pull` write.
func (a *archive) docker() ([]candidate, error) {
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := a.document("manifest.json", &manifest); err != nil {
		return nil, err
	}
	var out []candidate
	for _, m := range manifest {
		out = append(out, candidate{names: m.RepoTags, config: m.Config, layers: m.Layers})
	}
	return out, nil
}

// oci reads an index and those below it, and takes the images for this machine.
func (a *archive) oci(file string, names []string, depth int) ([]candidate, error) {
	if depth > 4 {
		return nil, errors.New("its index goes too deep")
	}
	var index v1.IndexManifest
	if err := a.document(file, &index); err != nil {
		return nil, err
	}
	var out []candidate
	for _, d := range index.Manifests {
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			continue
		}
		mine := slices.Clone(names)
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if n := d.Annotations[key]; n != "" && !slices.Contains(mine, n) {
				mine = append(mine, n)
			}
		}
		if d.MediaType.IsIndex() {
			below, err := a.oci(blobName(d.Digest), mine, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
			continue
		}
		var manifest v1.Manifest
		if err := a.document(blobName(d.Digest), &manifest); err != nil {
			return nil, err
		}
		c := candidate{names: mine, config: blobName(manifest.Config.Digest)}
		for _, l := range manifest.Layers {
			c.layers = append(c.layers, blobName(l.Digest))
		}
		out = append(out, c)
	}
	return out, nil
}

func blobName(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

func (a *archive) load(c candidate) (image, error) {
	var config v1.ConfigFile
	c.config = path.Clean(c.config)
	if err := a.document(c.config, &config); err != nil {
		return image{}, err
	}
	if config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return image{}, fmt.Errorf("the image is for %s, this node is %s", config.Architecture, runtime.GOARCH)
	}
	if len(config.RootFS.DiffIDs) != len(c.layers) {
		return image{}, fmt.Errorf("the image has %d layers and the hashes of %d", len(c.layers), len(config.RootFS.DiffIDs))
	}
	hash := sha256.New()
	b := a.blobs[c.config]
	if _, err := io.Copy(hash, io.NewSectionReader(a.file, b.offset, b.size)); err != nil {
		return image{}, err
	}
	out := image{id: hex.EncodeToString(hash.Sum(nil)), config: config.Config}
	for i, name := range c.layers {
		b, ok := a.blobs[path.Clean(name)]
		if !ok {
			return image{}, fmt.Errorf("layer %s is missing in the archive", name)
		}
		out.layers = append(out.layers, layer{diff: config.RootFS.DiffIDs[i], blob: b})
	}
	return out, nil
}

// read gives a layer's tar stream to f and checks afterwards that it was what the image's configuration says.
func (a *archive) read(l layer, f func(io.Reader) error) error {
	plain, err := decompressed(io.NewSectionReader(a.file, l.blob.offset, l.blob.size))
	if err != nil {
		return err
	}
	defer plain.Close()
	hash := sha256.New()
	stream := io.TeeReader(plain, hash)
	if err := f(stream); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); l.diff.Algorithm != "sha256" || got != l.diff.Hex {
		return fmt.Errorf("the archive is damaged: a layer's hash is %s, want %s", got, l.diff)
	}
	return nil
}

func decompressed(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(in)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
