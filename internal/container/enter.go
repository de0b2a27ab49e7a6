package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a part of the node's files that the container will see, held by a descriptor: what its path means can't change any more.
type tree struct {
	fd       int // -1 for a new tmpfs
	folder   bool
	target   string
	readOnly bool
	system   bool // not asked for by the user
}

// Enter is the process in the new namespaces: it reads the plan, makes the container's root its own, and sends the namespaces.
func Enter(in io.Reader, c Channel) error {
	var p plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return err
	}
	locked := os.NewFile(channelFD+1, "lock")
	user, err := os.Open("/proc/self/ns/user")
	if err != nil {
		return err
	}
	mounts, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	// Nothing of what follows may reach the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this container: %w", err)
	}
	trees, err := openTrees(p)
	if err != nil {
		return err
	}
	if err := enterRoot(p); err != nil {
		return err
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return err
		}
	}
	if err := writeUser(p); err != nil {
		return err
	}
	workdir, err := findWorkdir(p)
	if err != nil {
		return err
	}
	if p.Options.ReadOnly {
		if err := setReadOnly(unix.AT_FDCWD, "/", 0); err != nil {
			return fmt.Errorf("make the container's files read-only: %w", err)
		}
	}
	return tell(c, p, workdir, user, mounts, locked)
}

func tell(c Channel, p plan, workdir string, files ...*os.File) error {
	for _, v := range tasksEnvironment(p.Settings, p.Options.KeepEnv) {
		if err := c.send(recordSet, v); err != nil {
			return err
		}
	}
	if err := c.send(recordWorkdir, workdir); err != nil {
		return err
	}
	return c.files(files...)
}

// openTrees takes hold of all that comes from the node, while its files are still in sight.
func openTrees(p plan) ([]tree, error) {
	wanted := []Mount{
		{Source: "/proc", Target: "/proc"}, {Source: "/sys", Target: "/sys", ReadOnly: true}, {Source: "/dev", Target: "/dev"},
	}
	for _, f := range p.MountHere {
		if _, err := os.Stat(f); err == nil {
			wanted = append(wanted, Mount{Source: f, Target: f, ReadOnly: true})
		}
	}
	if p.Options.Script != "" {
		wanted = append(wanted, Mount{Source: p.Options.Script, Target: p.Options.Script, ReadOnly: true})
	}
	var out []tree
	for _, m := range wanted {
		t, err := openTree(m)
		if err != nil {
			return nil, err
		}
		t.system = true
		out = append(out, t)
	}
	mounts := p.Options.Mounts
	if p.Options.MountHome {
		if !filepath.IsAbs(p.Job.Home) {
			return nil, fmt.Errorf("--container-mount-home: HOME is %q in the job, want an absolute path", p.Job.Home)
		}
		mounts = append([]Mount{{Source: p.Job.Home, Target: p.Job.Home}}, mounts...)
	}
	for _, m := range mounts {
		t, err := openTree(m)
		if err != nil {
			return nil, fmt.Errorf("--container-mounts: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}

func openTree(m Mount) (tree, error) {
	t := tree{fd: -1, folder: true, target: m.Target, readOnly: m.ReadOnly}
	if m.Source == tmpfs {
		return t, nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("%s on this node: %w", m.Source, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return tree{}, fmt.Errorf("%s on this node: %w", m.Source, err)
	}
	t.fd, t.folder = fd, stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if t.readOnly {
		if err := setReadOnly(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE); err != nil {
			return tree{}, fmt.Errorf("make %s read-only in the container: %w", m.Source, err)
		}
	}
	return t, nil
}

func setReadOnly(fd int, path string, flags uint) error {
	return unix.MountSetattr(fd, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// enterRoot mounts the container's files and makes them the root.
func enterRoot(p plan) error {
	root := filepath.Join(p.Dir, "root")
	err := mountOverlay(root, p.Lower, filepath.Join(p.Dir, "upper"), filepath.Join(p.Dir, "work"))
	if err != nil && p.Lasting {
		return fmt.Errorf("mount the container's files in %s: %w; a container with a name, or one to be saved, needs a data folder "+
			"on a volume, such as an emptyDir", p.Dir, err)
	}
	if err != nil {
		if err := mountOnMemory(root, p); err != nil {
			return fmt.Errorf("mount the container's files in %s: %w", p.Dir, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make the container's files the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the node's files: %w", err)
	}
	return unix.Chdir("/")
}

func mountOverlay(root, lower, upper, work string) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", lower, upper, work)
	return unix.Mount("overlay", root, "overlay", unix.MS_NODEV|unix.MS_NOSUID, options)
}

// mountOnMemory is for a data folder on a file system that an overlay can't write to, such as the pod's own. What the container
// writes then counts as the job's memory.
func mountOnMemory(root string, p plan) error {
	scratch := filepath.Join(p.Dir, "scratch")
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0700"); err != nil {
		return err
	}
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return mountOverlay(root, p.Lower, upper, work)
}

// attach puts a tree where it belongs. The root is the container's by now, so no link in it leads out.
func (t tree) attach() error {
	if err := t.makeTarget(); err != nil {
		return fmt.Errorf("mount on %s in the container: %w", t.target, err)
	}
	var err error
	if t.fd < 0 {
		var flags uintptr = unix.MS_NODEV | unix.MS_NOSUID
		if t.readOnly {
			flags |= unix.MS_RDONLY
		}
		err = unix.Mount(tmpfs, t.target, tmpfs, flags, "mode=0755")
	} else {
		err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
	}
	if err != nil {
		return fmt.Errorf("mount on %s in the container: %w", t.target, err)
	}
	return nil
}

func (t tree) makeTarget() error {
	if t.system && !t.folder {
		// Images like to have a link to nowhere in place of resolv.conf.
		if to, err := os.Readlink(t.target); err == nil && to != "" {
			if err := os.Remove(t.target); err != nil {
				return err
			}
		}
	}
	info, err := os.Stat(t.target)
	switch {
	case err == nil && info.IsDir() == t.folder:
		return nil
	case err == nil && t.folder:
		return errors.New("it is a file in the image, the source is a folder")
	case err == nil:
		return errors.New("it is a folder in the image, the source is a file")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case t.folder:
		return os.MkdirAll(t.target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(t.target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(t.target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeUser gives the user a name in the container, since many programs end without one.
func writeUser(p plan) error {
	if p.Options.RemapRoot {
		return nil
	}
	home := p.Job.Home
	if !filepath.IsAbs(home) || strings.ContainsAny(home, ":\n") {
		home = "/"
	}
	line := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", p.Job.User, p.UID, p.GID, home)
	if err := addLine("/etc/passwd", line, p.UID); err != nil {
		return err
	}
	return addLine("/etc/group", fmt.Sprintf("%s:x:%d:\n", p.Job.User, p.GID), p.GID)
}

// addLine adds an entry for an id that has none.
func addLine(path, line string, id int) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for have := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(have), ":"); len(fields) > 2 && fields[2] == fmt.Sprint(id) {
			return nil
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("give the user a name in the container: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Close()
}

func findWorkdir(p plan) (string, error) {
	if dir := p.Options.Workdir; dir != "" {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() {
			return "", fmt.Errorf("--container-workdir: there is no folder %s in the container", dir)
		}
		return dir, nil
	}
	dir := p.Settings.Workdir
	if !filepath.IsAbs(dir) {
		return "/", nil
	}
	// Images may name a folder that they don't have; it is made at the start.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the image's working folder: %w", err)
	}
	return dir, nil
}
