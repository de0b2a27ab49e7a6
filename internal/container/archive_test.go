package container

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// picture is an image of two layers; its text tells it from others.
func picture(t *testing.T, text string) v1.Image {
	t.Helper()
	img := empty.Image
	for _, l := range [][]byte{
		tarOf(t, entry{name: "etc/os-release", content: "old"}, entry{name: "gone", content: "x"}),
		tarOf(t, entry{name: "etc/os-release", content: text}, entry{name: ".wh.gone"}),
	} {
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(l, types.DockerUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Env: []string{"WHO=" + text}, WorkingDir: "/work"}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

func dockerArchive(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker.tar")
	tags := map[name.Tag]v1.Image{}
	for n, img := range images {
		tag, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		tags[tag] = img
	}
	if err := tarball.MultiWriteToFile(path, tags); err != nil {
		t.Fatal(err)
	}
	return path
}

// ociArchive is an OCI layout in a tar file, with names as annotations.
func ociArchive(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for n, img := range images {
		if err := to.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": n})); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "oci.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []entry
	for _, file := range files(t, dir) {
		if n, content, ok := strings.Cut(file, "="); ok {
			all = append(all, entry{name: n, content: content})
		}
	}
	if _, err := f.Write(tarOf(t, all...)); err != nil {
		t.Fatal(err)
	}
	return path
}

func unpackReference(t *testing.T, reference string) (string, settings, error) {
	t.Helper()
	src, err := findSource(reference, "/")
	if err != nil {
		return "", settings{}, err
	}
	defer src.close()
	dir := filepath.Join(t.TempDir(), "rootfs")
	found, err := src.open(context.Background(), dir)
	return dir, found, err
}

func TestArchives(t *testing.T) {
	for kind, write := range map[string]func(*testing.T, map[string]v1.Image) string{"docker": dockerArchive, "oci": ociArchive} {
		t.Run(kind, func(t *testing.T) {
			one := write(t, map[string]v1.Image{"site/one:1": picture(t, "one")})
			dir, found, err := unpackReference(t, one)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"etc/", "etc/environment=WHO=one\n", "etc/os-release=one"}
			if d := cmp.Diff(want, files(t, dir)); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
			if d := cmp.Diff(settings{Env: []string{"WHO=one"}, Workdir: "/work"}, found); d != "" {
				t.Errorf("settings (-want +got):\n%s", d)
			}
			two := write(t, map[string]v1.Image{"site/one:1": picture(t, "one"), "site/two:latest": picture(t, "two")})
			if _, found, err = unpackReference(t, two+"#site/two"); err != nil || found.Env[0] != "WHO=two" {
				t.Errorf("the second of two images: %v, %v", found, err)
			}
			_, _, err = unpackReference(t, two)
			if err == nil || !strings.Contains(err.Error(), "choose one by PATH#NAME") || !strings.Contains(err.Error(), "site/two:latest") {
				t.Errorf("two images and no choice: %v", err)
			}
			_, _, err = unpackReference(t, two+"#three")
			if err == nil || !strings.Contains(err.Error(), "it has no image three") {
				t.Errorf("a name that isn't there: %v", err)
			}
		})
	}
}

// An archive whose layer isn't what the image says must not run.
func TestDamagedArchive(t *testing.T) {
	path := dockerArchive(t, map[string]v1.Image{"site/one:1": picture(t, "unmistakable")})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A file in a layer is filled up with zero bytes, the configuration isn't.
	changed := strings.Replace(string(text), "unmistakable\x00", "unmistakabel\x00", 1)
	if changed == string(text) {
		t.Fatal("the archive doesn't hold the layer as it is")
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unpackReference(t, path); err == nil || !strings.Contains(err.Error(), "the archive is damaged") {
		t.Errorf("error is %v, want that it is damaged", err)
	}
}

func TestFilesThatAreNoImages(t *testing.T) {
	write := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for reference, want := range map[string]string{
		"debian:12":          "not a path",
		"docker://debian:12": "crane pull",
		"/nowhere/image.tar": "no such file",
		t.TempDir():          "it is no file",
		write(nil):           "too short",
		write([]byte(strings.Repeat("text ", 300))):                                               "no image archive",
		write([]byte{0x1f, 0x8b, 8, 0, 0, 0}):                                                     "compressed: uncompress it",
		write(tarOf(t, entry{name: "a", content: "x"})):                                           "neither manifest.json nor index.json",
		write(tarOf(t, entry{name: "manifest.json", content: "[]"})):                              "has no image for linux",
		write(tarOf(t, entry{name: "manifest.json", content: `[{"Config":"../../etc/passwd"}]`})): "missing in the archive",
	} {
		if _, _, err := unpackReference(t, reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", reference, err, want)
		}
	}
}
