package container

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keptImages is how many images that no container uses stay unpacked for the next step.
const keptImages = 4

// store is the user's folder of unpacked images and of containers on this node. An image appears in it complete or not at all.
type store struct {
	dir string
	log func(string)
}

// settings are what an image says about the processes in it.
type settings struct {
	Env     []string
	Workdir string
}

func (s store) images() string                  { return filepath.Join(s.dir, "images") }
func (s store) image(key string) string         { return filepath.Join(s.images(), key) }
func (s store) containers() string              { return filepath.Join(s.dir, "containers") }
func (s store) container(name string) string    { return filepath.Join(s.containers(), name) }
func (s store) rootfs(key string) string        { return filepath.Join(s.image(key), "rootfs") }
func (s store) settings(key string) string      { return filepath.Join(s.image(key), "settings.json") }
func (s store) imageOf(container string) string { return filepath.Join(container, "image") }

// open makes the folders. They are the user's alone: other users' programs must not run what lies there.
func (s store) open() error {
	for _, dir := range []string{s.dir, s.images(), s.containers()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	info, err := os.Lstat(s.dir)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Lstat(s.dir, &stat); err != nil {
		return err
	}
	if !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s must be a folder of user %d with mode 0700, and is not", s.dir, os.Getuid())
	}
	return nil
}

// source is an image file that a user has named.
type source struct {
	file *os.File
	name string // one of several images in an archive
	key  string
	open func(ctx context.Context, dir string) (settings, error) // unpacks into dir
}

func (s source) close() { _ = s.file.Close() }

// findSource opens the file that --container-image names; relative paths start at dir.
func findSource(reference, dir string) (source, error) {
	if !isPath(reference) {
		return source{}, fmt.Errorf("%s is not a path. This runtime takes image files that the nodes can read: "+
			"write the image to one, such as with crane pull %s image.tar, and give its path", reference, reference)
	}
	path, name := absolute(reference, dir), ""
	f, err := os.Open(path)
	if before, after, ok := strings.Cut(path, "#"); ok && errors.Is(err, fs.ErrNotExist) {
		path, name = before, after
		f, err = os.Open(path)
	}
	if err != nil {
		return source{}, err
	}
	src, err := inspect(f, name)
	if err != nil {
		_ = f.Close()
		return source{}, fmt.Errorf("%s: %w", path, err)
	}
	return src, nil
}

func inspect(f *os.File, name string) (source, error) {
	info, err := f.Stat()
	if err != nil {
		return source{}, err
	}
	if !info.Mode().IsRegular() {
		return source{}, errors.New("it is no file")
	}
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil {
		return source{}, errors.New("it is too short for an image")
	}
	switch {
	case string(magic) == "hsqs":
		if name != "" {
			return source{}, errors.New("a squashfs file holds one image, without a name")
		}
		return squashfs(f, info)
	case magic[0] == 0x1f && magic[1] == 0x8b, string(magic) == "\x28\xb5\x2f\xfd":
		return source{}, errors.New("the archive as a whole is compressed: uncompress it first, its layers may stay compressed")
	}
	a, err := openArchive(f)
	if err != nil {
		return source{}, err
	}
	img, err := a.image(name)
	if err != nil {
		return source{}, err
	}
	return source{file: f, name: name, key: img.id, open: func(ctx context.Context, dir string) (settings, error) {
		return unpackImage(ctx, a, img, dir)
	}}, nil
}

// squashfs files carry no hash, so they are told apart by what the file system says about the file.
func squashfs(f *os.File, info fs.FileInfo) (source, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return source{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "squashfs %d %d %d %d %d", stat.Dev, stat.Ino, info.Size(), stat.Mtim.Nano(), stat.Ctim.Nano()))
	return source{file: f, key: hex.EncodeToString(sum[:]), open: func(ctx context.Context, dir string) (settings, error) {
		return unpackSquashfs(ctx, f, dir)
	}}, nil
}

func unpackImage(ctx context.Context, a *archive, img image, dir string) (settings, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return settings{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return settings{}, err
	}
	defer root.Close()
	u := newUnpacker(root)
	for i, l := range img.layers {
		if err := ctx.Err(); err != nil {
			return settings{}, context.Cause(ctx)
		}
		if err := a.read(l, u.layer); err != nil {
			return settings{}, fmt.Errorf("layer %d of %d: %w", i+1, len(img.layers), err)
		}
	}
	if err := u.finish(); err != nil {
		return settings{}, err
	}
	return settings{Env: img.config.Env, Workdir: img.config.WorkingDir}, writeEnvironment(root, img.config.Env)
}

// environmentFile is where images in squashfs files keep their variables, Enroot's and ours.
const environmentFile = "etc/environment"

func writeEnvironment(root *os.Root, env []string) error {
	if len(env) == 0 {
		return nil
	}
	dir, err := resolve(root, filepath.Dir(environmentFile))
	if err != nil {
		return err
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, filepath.Base(environmentFile))
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.WriteFile(path, []byte(strings.Join(env, "\n")+"\n"), 0o644)
}

func readEnvironment(root *os.Root) ([]string, error) {
	path, err := resolve(root, environmentFile)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, value, ok := strings.Cut(line, "="); ok && name != "" && !strings.HasPrefix(line, "#") {
			out = append(out, name+"="+strings.Trim(value, `"`))
		}
	}
	return out, lines.Err()
}

func unpackSquashfs(ctx context.Context, f *os.File, dir string) (settings, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/unsquashfs", "-no-progress", "-no-xattrs", "-quiet", "-dest", dir, "/proc/self/fd/3")
	cmd.Env, cmd.ExtraFiles = []string{"PATH=/usr/bin:/bin"}, []*os.File{f}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	// 2 means that all is there except for device files, or an owner that only root may set.
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) {
		return settings{}, fmt.Errorf("unsquashfs: %w: %s", err, lastLine(string(out)))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return settings{}, err
	}
	defer root.Close()
	env, err := readEnvironment(root)
	return settings{Env: env}, err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// ensure unpacks the image unless it is there. The caller holds the image's lock.
func (s store) ensure(ctx context.Context, src source, shown string) error {
	if _, err := os.Stat(s.settings(src.key)); err == nil {
		now := time.Now()
		return os.Chtimes(s.settings(src.key), now, now)
	}
	s.log("unpacking " + shown)
	tmp := s.image(src.key) + ".new"
	if err := removeAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	found, err := src.open(ctx, filepath.Join(tmp, "rootfs"))
	if err != nil {
		return errors.Join(fmt.Errorf("unpack %s: %w", shown, err), removeAll(tmp))
	}
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "settings.json"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, s.image(src.key))
}

func (s store) readSettings(key string) (settings, error) {
	var out settings
	text, err := os.ReadFile(s.settings(key))
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

// prune removes images that no container has, except for those that were used last.
func (s store) prune() error {
	entries, err := os.ReadDir(s.images())
	if err != nil {
		return err
	}
	used, err := s.usedImages()
	if err != nil {
		return err
	}
	type idle struct {
		key  string
		time time.Time
	}
	var all []idle
	for _, e := range entries {
		key := e.Name()
		info, err := os.Stat(s.settings(key))
		if err == nil && !slices.Contains(used, key) {
			all = append(all, idle{key, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return b.time.Compare(a.time) })
	for _, i := range all[min(len(all), keptImages):] {
		if err := s.dropImage(i.key); err != nil {
			return err
		}
	}
	return nil
}

// dropImage removes an image, but not if another step is just taking it.
func (s store) dropImage(key string) error {
	l, err := lock(s.image(key)+".lock", false)
	if err != nil {
		return nil //nolint:nilerr // it is in use, so it stays
	}
	defer l.release()
	used, err := s.usedImages()
	if err != nil || slices.Contains(used, key) {
		return err
	}
	return removeAll(s.image(key))
}

func (s store) usedImages() ([]string, error) {
	entries, err := os.ReadDir(s.containers())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		key, err := os.ReadFile(s.imageOf(s.container(e.Name())))
		if err == nil {
			out = append(out, string(key))
		}
	}
	return out, nil
}

// removeAll also removes folders that forbid it.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walked := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			if chmod := os.Chmod(path, 0o700); chmod != nil {
				return chmod
			}
			if err != nil {
				return nil // it could not be read before; the next walk goes into it
			}
		}
		return err
	})
	again := os.RemoveAll(dir)
	if again == nil {
		return nil
	}
	return errors.Join(walked, again)
}
