package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Save writes the container's files into the file that the user wants. The step holds the container's lock.
func Save(ctx context.Context, o Options, c Channel) error {
	s := store{dir: o.Data, log: c.info}
	return s.save(ctx, containerOf(o), o.Save)
}

// Finish removes the container if it has no name.
func Finish(o Options, c Channel) error {
	if o.Name != "" {
		return nil
	}
	s := store{dir: o.Data, log: c.info}
	name := containerOf(o)
	l, err := lock(s.container(name)+".lock", false)
	if err != nil {
		return fmt.Errorf("remove the container of step %s: %w", o.Step, err)
	}
	defer l.release()
	return s.drop(name)
}

// snapshot is what the process that saves a container needs to know.
type snapshot struct{ Lower, Upper, Root, Target string }

// save writes the container's files into a squashfs file, which appears complete or not at all.
func (s store) save(ctx context.Context, name, path string) error {
	container := s.container(name)
	key, err := os.ReadFile(s.imageOf(container))
	if err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%s.new", path, filepath.Base(container))
	text, err := json.Marshal(snapshot{
		Lower: s.rootfs(string(key)), Upper: filepath.Join(container, "upper"), Root: filepath.Join(container, "root"), Target: tmp,
	})
	if err != nil {
		return err
	}
	s.log("saving the container in " + path)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "snapshot")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = bytes.NewReader(text), &out, &out, namespaces(true)
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("save the container in %s: %w: %s", path, err, lastLine(out.String())), os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("save the container: %w", err), os.Remove(tmp))
	}
	return nil
}

// Snapshot is the process in namespaces of its own that sees the container's files as the container did, without its mounts.
func Snapshot(ctx context.Context, in io.Reader) error {
	var p snapshot
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s:%s,userxattr", p.Upper, p.Lower)
	if err := unix.Mount("overlay", p.Root, "overlay", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount the container's files: %w", err)
	}
	// Files belong to root in the file, as in any image; whoever unpacks it owns them.
	cmd := exec.CommandContext(ctx, "/usr/bin/mksquashfs", p.Root, p.Target, "-all-root", "-noappend", "-no-progress", "-no-xattrs", "-quiet")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mksquashfs: %w: %s", err, lastLine(string(out)))
	}
	return nil
}
