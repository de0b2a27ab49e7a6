package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settled is how long a daemon that has reported itself ready must go on until its configuration counts as one that works.
const settled = 10 * time.Second

// configuration keeps a copy of the last configuration with which the daemon worked, and gives it that copy where the daemon
// doesn't start with the one that it is given. A container whose daemon fails still ends: Kubernetes starts it again, shows what
// the daemon said, and that second start takes the copy. A new pod always tries what it is given first. Nothing here may keep
// the daemon from starting: what fails is logged, and the daemon has the protection of the container alone.
type configuration struct {
	live  string // the folder that the daemon is given
	store string // where the copy is kept, beside the daemon's state
	run   string // a folder that lasts as long as the pod
	log   io.Writer

	given   string    // the hash of live when the daemon was started
	instead time.Time // the copy that the daemon has instead dates from then; zero if it has what it is given
	readyAt time.Time // since when the daemon is ready with what it has read last
	worked  bool      // it went on long enough
}

// daemonConf is the main file of the folder.
const daemonConf = "slurm.conf"

// begin decides what the daemon is to read, and returns what that adds to its environment.
func (c *configuration) begin() []string {
	files, err := readFiles(c.live)
	if err != nil {
		c.say("%s can't be read: %v", c.live, err)
		return nil
	}
	c.given = hashOf(files)
	failed, err := os.ReadFile(c.failed())
	if err != nil || string(failed) != c.given {
		return nil
	}
	at, usable := c.copied()
	if !usable {
		return nil
	}
	dir := filepath.Join(c.run, "last-config")
	if err := c.lay(dir); err != nil {
		c.say("the last configuration that worked can't be used: %v", err)
		return nil
	}
	c.instead = at
	c.say("slurmctld didn't start with the configuration in %s: it has that of %s, with which it worked", c.live, at.Format(time.RFC3339))
	return []string{"SLURM_CONF=" + filepath.Join(dir, daemonConf)}
}

// failed names the file with the hash of what the daemon didn't start with in this pod.
func (c *configuration) failed() string { return filepath.Join(c.run, "failed-config") }

// copied tells since when there is a copy of something else than what the daemon is given.
func (c *configuration) copied() (time.Time, bool) {
	good := filepath.Join(c.store, "good")
	target, err := os.Readlink(good)
	if err != nil || target == c.given {
		return time.Time{}, false
	}
	info, err := os.Lstat(good)
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime().UTC(), true
}

// lay writes the copy into a folder. Keys were not copied: the folder has links to those that count now.
func (c *configuration) lay(dir string) error {
	files, err := readFiles(filepath.Join(c.store, "good"))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(c.live)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), writeFiles(dir, files)); err != nil {
		return err
	}
	for _, e := range entries {
		if isKey(e.Name()) {
			if err := os.Symlink(filepath.Join(c.live, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready notes that the daemon has read its configuration, at its start or later.
func (c *configuration) ready(now time.Time) {
	if c == nil {
		return
	}
	again := !c.readyAt.IsZero()
	c.readyAt = now
	if !again || !c.instead.IsZero() {
		return
	}
	// It was told to read its files again, and has done so.
	if files, err := readFiles(c.live); err == nil {
		c.given, c.worked = hashOf(files), false
	}
}

// look keeps what works. It reports whether the daemon should be started again: it has the copy, and there is something new.
func (c *configuration) look(now time.Time) bool {
	if c == nil {
		return false
	}
	due := !c.worked && !c.readyAt.IsZero() && now.Sub(c.readyAt) >= settled
	if !due && c.instead.IsZero() {
		return false
	}
	files, err := readFiles(c.live)
	if err != nil {
		return false
	}
	if !c.instead.IsZero() {
		c.worked = c.worked || due
		if hashOf(files) == c.given {
			return false
		}
		c.say("%s has changed: slurmctld ends to start with it", c.live)
		return true
	}
	c.worked = true
	if hashOf(files) != c.given {
		return false // it hasn't read that yet
	}
	if err := c.keep(files); err != nil {
		c.say("a copy of the configuration can't be kept in %s: %v", c.store, err)
	}
	return false
}

// keep makes files the copy. At each moment there is a whole one, also for other controllers with the same state.
func (c *configuration) keep(files map[string]file) error {
	good := filepath.Join(c.store, "good")
	if target, err := os.Readlink(good); err == nil && target == c.given {
		return nil
	}
	if err := os.MkdirAll(c.store, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(c.store, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := writeFiles(filepath.Join(fresh, "files"), files); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(fresh, "files"), filepath.Join(c.store, c.given))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Symlink(c.given, filepath.Join(fresh, "good")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(fresh, "good"), good); err != nil {
		return err
	}
	return c.tidy()
}

// tidy removes older copies.
func (c *configuration) tidy() error {
	entries, err := os.ReadDir(c.store)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != c.given && !strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.store, e.Name())))
		}
	}
	return err
}

// ended is told when the daemon has ended unasked. The line that it writes is the last of the container, so Kubernetes shows it
// beside what the daemon said, and the operator reads it there.
func (c *configuration) ended(status syscall.WaitStatus) {
	if c == nil || c.given == "" || status.Signaled() && status.Signal() == syscall.SIGKILL {
		return
	}
	if !c.instead.IsZero() && !c.worked {
		_ = os.Remove(c.failed())
		c.say("slurmctld doesn't start with the last configuration that worked either: the next start takes the given one")
		return
	}
	at := c.instead
	if at.IsZero() {
		var usable bool
		if at, usable = c.copied(); !usable || c.worked {
			return
		}
		if err := os.WriteFile(c.failed(), []byte(c.given), 0o600); err != nil {
			c.say("%v", err)
			return
		}
	}
	c.say("slurmctld doesn't start with its configuration: it goes on with the configuration of %s", at.Format(time.RFC3339))
}

func (c *configuration) say(format string, args ...any) {
	fmt.Fprintf(c.log, "entrypoint: "+format+"\n", args...)
}

// file is a file of a configuration. Scripts are among them.
type file struct {
	content []byte
	mode    fs.FileMode
}

// readFiles reads the files of a folder, but for keys, which aren't configuration and don't belong on the disk.
func readFiles(dir string) (map[string]file, error) {
	entries, err := os.ReadDir(dir + "/")
	if err != nil {
		return nil, err
	}
	out := map[string]file{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		// What begins with two dots is the kubelet's.
		if !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), "..") || isKey(e.Name()) {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out[e.Name()] = file{content, info.Mode().Perm() | 0o600}
	}
	return out, nil
}

func isKey(name string) bool {
	return slices.Contains([]string{".key", ".jwks", ".pem", ".crt", ".p12"}, filepath.Ext(name)) || name == "jwks.json"
}

func hashOf(files map[string]file) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(files[name].content))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func writeFiles(dir string, files map[string]file) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, f := range files {
		if err := writeFile(filepath.Join(dir, name), f); err != nil {
			return err
		}
	}
	return nil
}

// writeFile returns once the file is on the disk: a copy must not be empty after a loss of power.
func writeFile(path string, f file) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = out.Write(f.content)
	return errors.Join(err, out.Sync(), out.Close())
}
