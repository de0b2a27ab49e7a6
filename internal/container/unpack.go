package container

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacker applies layers to a folder. Everything belongs to the user who runs it, as the container's processes do, too. The modes of
// folders come last, since they may forbid to write into them.
type unpacker struct {
	root  *os.Root
	modes map[string]fs.FileMode
}

func newUnpacker(root *os.Root) *unpacker {
	return &unpacker{root: root, modes: map[string]fs.FileMode{}}
}

// layer applies the changes of one layer.
func (u *unpacker) layer(r io.Reader) error {
	in := tar.NewReader(r)
	// An opaque folder hides what lower layers have in it, not what this one has.
	mine := map[string]bool{}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := u.entry(h, in, mine); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func (u *unpacker) entry(h *tar.Header, content io.Reader, mine map[string]bool) error {
	name := path.Clean("/" + h.Name)[1:]
	if name == "" {
		return nil
	}
	// Above an entry there may be links to folders, absolute ones, too: they mean a place in the image.
	parent, err := resolve(u.root, path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	target := path.Join(parent, base)
	switch {
	case base == opaque:
		return u.clear(parent, mine)
	case strings.HasPrefix(base, whiteout):
		return u.remove(path.Join(parent, strings.TrimPrefix(base, whiteout)))
	}
	if err := u.root.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	for p := target; p != "."; p = path.Dir(p) {
		mine[p] = true
	}
	return u.make(h, content, target)
}

// make makes one file, folder or link.
func (u *unpacker) make(h *tar.Header, content io.Reader, target string) error {
	old, err := u.root.Lstat(target)
	if err == nil && (h.Typeflag != tar.TypeDir || !old.IsDir()) {
		if err := u.remove(target); err != nil {
			return err
		}
	}
	// Set-uid has no place here: it would give whoever runs the file the rights of the container's user.
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.MkdirAll(target, 0o755); err != nil {
			return err
		}
		u.modes[target] = mode | h.FileInfo().Mode()&fs.ModeSticky
		return nil
	case tar.TypeReg:
		return u.file(h, content, target, mode)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, target)
	case tar.TypeLink:
		linked := path.Clean("/" + h.Linkname)[1:]
		parent, err := resolve(u.root, path.Dir(linked))
		if err != nil {
			return err
		}
		return u.root.Link(path.Join(parent, path.Base(linked)), target)
	}
	return nil // devices and pipes: the container has the node's own /dev
}

func (u *unpacker) file(h *tar.Header, content io.Reader, target string, mode fs.FileMode) error {
	f, err := u.root.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return u.root.Chtimes(target, h.ModTime, h.ModTime)
}

func (u *unpacker) remove(target string) error {
	for p := range u.modes {
		if p == target || strings.HasPrefix(p, target+"/") {
			delete(u.modes, p)
		}
	}
	return u.root.RemoveAll(target)
}

// clear removes what is in a folder, but not what this layer has put there.
func (u *unpacker) clear(dir string, mine map[string]bool) error {
	f, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		p := path.Join(dir, n)
		remove := u.remove
		if mine[p] {
			// The folder is of this layer, what lower ones have in it isn't.
			remove = func(p string) error { return u.clearFolder(p, mine) }
		}
		if err := remove(p); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) clearFolder(p string, mine map[string]bool) error {
	info, err := u.root.Lstat(p)
	if err != nil || !info.IsDir() {
		return err
	}
	return u.clear(p, mine)
}

// finish sets the modes of folders. The user keeps the right to remove what is in them.
func (u *unpacker) finish() error {
	for p, mode := range u.modes {
		if err := u.root.Chmod(p, mode|0o700); err != nil {
			return err
		}
	}
	return nil
}

// resolve follows the links in a path within root, as a process with that root directory would. What doesn't exist stays as it is.
func resolve(root *os.Root, name string) (string, error) {
	rest := strings.Split(name, "/")
	done := "."
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("%s: too many links", name)
		}
		to, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(to) {
			done = "."
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, nil
}
