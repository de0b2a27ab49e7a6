package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Overlay lays files over a /sys: text is YAML, a map from absolute paths below
// /sys to their content. A folder has the entries of both; but if the overlay
// puts a CPU on a NUMA node, the node below doesn't count.
func Overlay(base fs.FS, text []byte) (fs.FS, error) {
	var files map[string]string
	if err := yaml.UnmarshalStrict(text, &files); err != nil {
		return nil, fmt.Errorf("read the overlay of /sys: %w", err)
	}
	o := overlay{FS: base, files: map[string]string{}, dirs: map[string][]string{}}
	for name, content := range files {
		below, ok := strings.CutPrefix(name, "/sys/")
		if !ok || !fs.ValidPath(below) {
			return nil, fmt.Errorf("read the overlay of /sys: %q is no path below /sys", name)
		}
		o.files[below] = content
		for below != "." {
			parent, child := path.Dir(below), path.Base(below)
			if !slices.Contains(o.dirs[parent], child) {
				o.dirs[parent] = append(o.dirs[parent], child)
			}
			below = parent
		}
	}
	return o, nil
}

type overlay struct {
	fs.FS
	files map[string]string
	dirs  map[string][]string
}

func (o overlay) ReadFile(name string) ([]byte, error) {
	if content, ok := o.files[name]; ok {
		return []byte(content), nil
	}
	return fs.ReadFile(o.FS, name)
}

func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	children := o.dirs[name]
	entries, err := fs.ReadDir(o.FS, name)
	if err != nil && children == nil {
		return nil, err
	}
	ours := slices.ContainsFunc(children, isNode)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains(children, e.Name()) || ours && isNode(e.Name())
	})
	for _, c := range children {
		_, file := o.files[path.Join(name, c)]
		entries = append(entries, entry{c, !file})
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func isNode(name string) bool {
	digits, ok := strings.CutPrefix(name, "node")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// entry is a file or folder that only the overlay has.
type entry struct {
	name string
	dir  bool
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.dir }
func (e entry) Info() (fs.FileInfo, error) { return info{e}, nil }
func (e entry) Type() fs.FileMode {
	if e.dir {
		return fs.ModeDir
	}
	return 0
}

type info struct{ entry }

func (i info) Size() int64        { return 0 }
func (i info) Mode() fs.FileMode  { return i.Type() | 0o444 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
