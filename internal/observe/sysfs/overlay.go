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
	o := overlay{FS: base, files: map[string]string{}, dirs: map[string]map[string]bool{}}
	for name, content := range files {
		below, ok := strings.CutPrefix(name, "/sys/")
		if !ok || !fs.ValidPath(below) {
			return nil, fmt.Errorf("read the overlay of /sys: %q is no path below /sys", name)
		}
		o.put(below, content)
	}
	return o, nil
}

type overlay struct {
	fs.FS
	files map[string]string
	dirs  map[string]map[string]bool // the names in each folder
}

func (o overlay) put(name, content string) {
	o.files[name] = content
	for name != "." {
		parent := path.Dir(name)
		if o.dirs[parent] == nil {
			o.dirs[parent] = map[string]bool{}
		}
		o.dirs[parent][path.Base(name)] = true
		name = parent
	}
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
	ours := false
	for c := range children {
		ours = ours || isNode(c)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return children[e.Name()] || ours && isNode(e.Name()) })
	for c := range children {
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
