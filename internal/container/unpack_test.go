package container

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is one entry of a layer: "folder/" is a folder, "a -> b" a link, "a = b" a hard link, anything else a file with its content.
type entry struct {
	name, content string
	mode          int64
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content))}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if name, to, ok := strings.Cut(e.name, " -> "); ok {
			h.Typeflag, h.Name, h.Linkname = tar.TypeSymlink, name, to
		} else if name, to, ok := strings.Cut(e.name, " = "); ok {
			h.Typeflag, h.Name, h.Linkname = tar.TypeLink, name, to
		} else if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		} else if e.content == "device" {
			h.Typeflag, h.Size = tar.TypeChar, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(e.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack applies layers in a new folder and returns it.
func unpack(t *testing.T, layers ...[]byte) (string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := newUnpacker(root)
	for _, l := range layers {
		if err := u.layer(bytes.NewReader(l)); err != nil {
			return dir, err
		}
	}
	return dir, u.finish()
}

// files lists what is in a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			name += " -> " + to
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += "=" + string(text)
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestLayers(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   []string
	}{
		{
			"a file replaces a file, a folder and a link", [][]entry{
				{{name: "a", content: "1"}, {name: "b/"}, {name: "b/c", content: "1"}, {name: "d -> /a"}},
				{{name: "a", content: "2"}, {name: "b", content: "2"}, {name: "d", content: "2"}},
			}, []string{"a=2", "b=2", "d=2"},
		},
		{
			"whiteouts", [][]entry{
				{{name: "a/"}, {name: "a/b", content: "1"}, {name: "a/c", content: "1"}, {name: "d/e", content: "1"}},
				{{name: "a/.wh.b"}, {name: ".wh.d"}, {name: ".wh.never"}},
			}, []string{"a/", "a/c=1"},
		},
		{
			"an opaque folder hides lower layers but not its own", [][]entry{
				{{name: "a/old", content: "1"}, {name: "a/both/old", content: "1"}},
				{{name: "a/both/new", content: "2"}, {name: "a/.wh..wh..opq"}, {name: "a/new", content: "2"}},
			}, []string{"a/", "a/both/", "a/both/new=2", "a/new=2"},
		},
		{
			"a whiteout and a new file of the same name", [][]entry{
				{{name: "a/x", content: "1"}}, {{name: ".wh.a"}, {name: "a/y", content: "2"}},
			}, []string{"a/", "a/y=2"},
		},
		{
			"entries below an absolute link land where the image means", [][]entry{
				{{name: "run/"}, {name: "var/run -> /run"}}, {{name: "var/run/lock", content: "1"}},
			}, []string{"run/", "run/lock=1", "var/", "var/run -> /run"},
		},
		{
			"hard links, also by way of a link", [][]entry{
				{{name: "usr/lib/a", content: "1"}, {name: "lib -> usr/lib"}, {name: "b = lib/a"}},
			}, []string{"b=1", "lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a=1"},
		},
		{"devices are left out", [][]entry{{{name: "dev/null", content: "device"}}}, []string{"dev/"}},
		{"dots mean the root", [][]entry{{{name: "./"}, {name: "./a/../b", content: "1"}}}, []string{"b=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, tarOf(t, l...))
			}
			dir, err := unpack(t, layers...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, files(t, dir)); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
		})
	}
}

// Whatever an archive says, nothing is written, linked or removed outside of its folder.
func TestLayersStayInside(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 20)
	for name, l := range map[string][]entry{
		"dots":                      {{name: up + victim, content: "x"}},
		"an absolute name":          {{name: victim, content: "x"}},
		"a link to an outer folder": {{name: "a -> " + outside}, {name: "a/victim", content: "x"}},
		"a link with dots":          {{name: "a -> " + up + outside}, {name: "a/victim", content: "x"}},
		"a chain of links":          {{name: "a -> b"}, {name: "b -> " + outside}, {name: "a/victim", content: "x"}},
		"a link in place of a file": {{name: "f -> " + victim}, {name: "f", content: "x"}},
		"a hard link":               {{name: "f = " + victim}, {name: "f", content: "x"}},
		"a hard link by a link":     {{name: "a -> " + outside}, {name: "f = a/victim"}},
		"a whiteout":                {{name: "a -> " + outside}, {name: "a/.wh.victim"}},
		"an opaque folder":          {{name: "a -> " + outside}, {name: "a/.wh..wh..opq"}},
		"a whiteout of dots":        {{name: ".wh..."}, {name: ".wh..", content: "x"}},
		"a folder's mode":           {{name: "a -> " + outside}, {name: "a/", mode: 0o777}},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.Stat(outside)
			if err != nil {
				t.Fatal(err)
			}
			dir, err := unpack(t, tarOf(t, l...))
			t.Log("unpack says:", err)
			if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
				t.Fatalf("the file outside is now %q, %v", text, err)
			}
			if d := cmp.Diff([]string{"victim=mine"}, files(t, outside)); d != "" {
				t.Errorf("the folder outside (-want +got):\n%s", d)
			}
			after, err := os.Stat(outside)
			if err != nil || after.Mode() != before.Mode() {
				t.Errorf("the outer folder's mode is now %s, %v", after.Mode(), err)
			}
			if info, err := os.Stat(filepath.Join(dir, "f")); err == nil {
				if other, err := os.Stat(victim); err == nil && os.SameFile(info, other) {
					t.Error("the image holds a link to the file outside")
				}
			}
		})
	}
}

func TestModes(t *testing.T) {
	dir, err := unpack(t, tarOf(t, entry{name: "d/", mode: 0o555}, entry{name: "d/f", content: "x", mode: 0o4711}, entry{name: "tmp/", mode: 0o1777}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{"d": fs.ModeDir | 0o755, "d/f": 0o711, "tmp": fs.ModeDir | fs.ModeSticky | 0o777}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%s has mode %s, want %s", name, info.Mode(), mode)
		}
	}
}

func FuzzLayer(f *testing.F) {
	t := &testing.T{}
	f.Add(tarOf(t, entry{name: "a -> ../.."}, entry{name: "a/.wh.b"}, entry{name: "x = a/y"}, entry{name: "d/", mode: 0o1}))
	f.Fuzz(func(t *testing.T, layer []byte) {
		outer := t.TempDir()
		inner := filepath.Join(outer, "in")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inner)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		u := newUnpacker(root)
		if u.layer(bytes.NewReader(layer)) == nil {
			_ = u.finish()
		}
		entries, err := os.ReadDir(outer)
		if err != nil || len(entries) != 1 || !entries[0].IsDir() {
			t.Fatalf("the folder above has %v, %v", entries, err)
		}
		if err := removeAll(inner); err != nil {
			t.Fatal(err)
		}
	})
}
