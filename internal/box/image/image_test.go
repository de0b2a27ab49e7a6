package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

func static(t *testing.T, c *cache.Cache, name, content string) Image {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := BuildStatic(t.Context(), c, Static{Name: name, Binary: binary, Target: "/usr/bin/program", Args: []string{"run"}, User: "65532:65532"})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestStaticImage(t *testing.T) {
	img := static(t, cache.New(t.TempDir(), nil), "example.org/one:1", "binary")
	index, err := layout.ImageIndexFromPath(img.Layout)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Error(err)
	}
	hash, err := v1.NewHash(img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := index.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	file, err := inside.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(file.Config.Entrypoint, " ") + " as " + file.Config.User; got != "/usr/bin/program run as 65532:65532" {
		t.Errorf("the image runs %s", got)
	}
	layers, err := inside.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	want := map[string]string{"usr/": "", "usr/bin/": "", "tmp/": "", "usr/bin/program": "binary"}
	if diff := cmp.Diff(want, untar(t, content)); diff != "" {
		t.Error(diff)
	}
}

func TestStaticImageFollowsItsContent(t *testing.T) {
	c := cache.New(t.TempDir(), nil)
	first := static(t, c, "example.org/one:1", "binary")
	same := static(t, c, "example.org/one:1", "binary")
	elsewhere := static(t, cache.New(t.TempDir(), nil), "example.org/one:1", "binary")
	other := static(t, c, "example.org/one:1", "another")
	if first != same {
		t.Errorf("the same content gave %v and %v", first, same)
	}
	if first.Digest != elsewhere.Digest {
		t.Error("the digest depends on when or where the image is made")
	}
	if first.Digest == other.Digest || first.Layout == other.Layout {
		t.Error("new content gave the old image")
	}
}

func TestBundleSharesBlobs(t *testing.T) {
	c := cache.New(t.TempDir(), nil)
	images := []Image{
		static(t, c, "example.org/one:1", "binary"), static(t, c, "example.org/two:2", "binary"), static(t, c, "example.org/three:3", "another"),
	}
	path, err := Bundle(t.Context(), c, images)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := untar(t, f)
	var index v1.IndexManifest
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	var names []string
	blobs := map[string]bool{}
	for _, d := range index.Manifests {
		names = append(names, d.Annotations[containerdAnnotation])
		var m v1.Manifest
		if err := json.Unmarshal([]byte(files["blobs/sha256/"+d.Digest.Hex]), &m); err != nil {
			t.Fatal(err)
		}
		for _, b := range append(m.Layers, m.Config, d) {
			blobs["blobs/sha256/"+b.Digest.Hex] = true
			sum := sha256.Sum256([]byte(files["blobs/sha256/"+b.Digest.Hex]))
			if hex.EncodeToString(sum[:]) != b.Digest.Hex {
				t.Errorf("blob %s is missing or has another content", b.Digest)
			}
		}
	}
	if diff := cmp.Diff([]string{"example.org/one:1", "example.org/two:2", "example.org/three:3"}, names); diff != "" {
		t.Error(diff)
	}
	if want := len(blobs) + len([]string{"index.json", "oci-layout"}); len(files) != want {
		t.Errorf("the archive holds %d files, want %d", len(files), want)
	}
}

func TestShareBlobs(t *testing.T) {
	parent, child := t.TempDir(), t.TempDir()
	for dir, files := range map[string][]string{parent: {"both", "parent"}, child: {"both", "child"}} {
		if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", f), []byte(f), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // the second time the blobs are shared already
		if err := shareBlobs(t.Context(), child, parent); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := os.Stat(filepath.Join(parent, "blobs/sha256/both"))
	b, errB := os.Stat(filepath.Join(child, "blobs/sha256/both"))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(a, b) {
		t.Error("the common blob is on disk twice")
	}
	entries, err := os.ReadDir(child)
	if err != nil || len(entries) != 1 {
		t.Errorf("child holds %v, %v; want blobs alone", entries, err)
	}
}

func TestChooseAddsParents(t *testing.T) {
	chosen, err := choose([]string{"login", "pause"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range chosen {
		got = append(got, r.name)
	}
	if diff := cmp.Diff([]string{"debian", "slurm-base", "slurm-ssh", "login", "pause"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := choose([]string{"slurm"}); err == nil {
		t.Error("an unknown name was taken")
	}
}

// TestEveryDockerfileHasItsRecipe: an image that is only in one of the two places is forgotten.
func TestEveryDockerfileHasItsRecipe(t *testing.T) {
	files, err := filepath.Glob("../../../images/*/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		found[filepath.Base(filepath.Dir(f))] = true
	}
	want := map[string]bool{
		"go":           true,                      // one for all programs of our own
		"slurmd-pyxis": true, "login-pyxis": true, // they need what only GitHub has, so the box doesn't build them
	}
	for _, r := range recipes() {
		if r.parent != "" || r.target != "" { // a program that is elsewhere than the others has its own, too
			want[r.name] = true
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, in); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = content.String()
	}
}
