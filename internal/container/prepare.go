package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// job is what the environment of the job says.
type job struct {
	Home string
	User string
}

// plan is all that the process in the namespaces needs to know.
type plan struct {
	Lower     string // the image
	Dir       string // the container
	Lasting   bool   // what the container writes must survive the step
	Options   Options
	Settings  settings
	Job       job
	UID, GID  int
	MountHere []string // files of the node that every container sees at their own path
}

// Prepare makes the container of a step and sends its namespaces to the plugin.
func Prepare(ctx context.Context, o Options, dir string, getenv func(string) string, c Channel) error {
	s := store{dir: o.Data, log: c.info}
	if err := s.open(); err != nil {
		return err
	}
	if o.Save != "" {
		// Better now than when the work is done.
		if err := unix.Access(filepath.Dir(o.Save), unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("--container-save: can't write to %s on this node: %w", filepath.Dir(o.Save), err)
		}
	}
	name := containerOf(o)
	l, err := lock(s.container(name)+".lock", false)
	if errors.Is(err, errBusy) {
		return fmt.Errorf("container %s is in use by another step of yours on this node; give each step a name of its own", o.Name)
	}
	if err != nil {
		return err
	}
	defer l.release()
	key, created, err := s.create(ctx, o, name, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(s.sweep(name), s.prune()); err != nil {
		c.info("can't tidy up old containers: " + err.Error())
	}
	if err := s.start(ctx, o, name, key, job{Home: getenv("HOME"), User: userName(getenv)}, c, l); err != nil {
		if created {
			err = errors.Join(err, s.drop(name))
		}
		return err
	}
	return nil
}

// containerOf names the container's folder. The two kinds can't clash.
func containerOf(o Options) string {
	if o.Name != "" {
		return "name-" + o.Name
	}
	return "step-" + o.Step
}

func userName(getenv func(string) string) string {
	for _, variable := range []string{"SLURM_JOB_USER", "USER", "LOGNAME"} {
		if name := getenv(variable); containerName.MatchString(name) {
			return name
		}
	}
	return "user"
}

// create makes the container's folder on its image unless it is there. The caller holds its lock.
func (s store) create(ctx context.Context, o Options, name, dir string) (key string, created bool, err error) {
	if o.Name != "" {
		text, err := os.ReadFile(s.imageOf(s.container(name)))
		if err == nil {
			return string(text), false, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
		if o.Image == "" {
			return "", false, fmt.Errorf("there is no container %s of yours on this node: give --container-image, too", o.Name)
		}
	}
	src, err := findSource(o.Image, dir)
	if err != nil {
		return "", false, fmt.Errorf("--container-image: %w", err)
	}
	defer src.close()
	held, err := lock(s.image(src.key)+".lock", true)
	if err != nil {
		return "", false, err
	}
	defer held.release()
	if err := s.ensure(ctx, src, o.Image); err != nil {
		return "", false, err
	}
	container := s.container(name)
	if err := removeAll(container); err != nil { // left by a step of the same number that was killed
		return "", false, err
	}
	for _, sub := range []string{"upper", "work", "root", "scratch"} {
		if err := os.MkdirAll(filepath.Join(container, sub), 0o755); err != nil {
			return "", false, err
		}
	}
	return src.key, true, os.WriteFile(s.imageOf(container), []byte(src.key), 0o600)
}

// sweep removes containers of steps that ended without a word.
func (s store) sweep(except string) error {
	entries, err := os.ReadDir(s.containers())
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "step-") || name == except || !e.IsDir() {
			continue
		}
		l, err := lock(s.container(name)+".lock", false)
		if errors.Is(err, errBusy) {
			continue
		}
		if err != nil {
			return err
		}
		err = s.drop(name)
		l.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// drop removes a container. The caller holds its lock.
func (s store) drop(name string) error {
	err := removeAll(s.container(name))
	if rm := os.Remove(s.container(name) + ".lock"); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

// SaidExit is the exit code of a child that has told the plugin what is wrong.
const SaidExit = 3

// ErrSaid means that the plugin knows already.
var ErrSaid = errors.New("the reason has been given")

// start runs the process that makes the namespaces.
func (s store) start(ctx context.Context, o Options, name, key string, j job, c Channel, l held) error {
	found, err := s.readSettings(key)
	if err != nil {
		return err
	}
	text, err := json.Marshal(plan{
		Lower: s.rootfs(key), Dir: s.container(name), Lasting: o.Name != "" || o.Save != "", Options: o, Settings: found, Job: j,
		UID: os.Getuid(), GID: os.Getgid(), MountHere: []string{"/etc/resolv.conf", "/etc/hosts", "/etc/hostname"},
	})
	if err != nil {
		return err
	}
	channel, err := c.file()
	if err != nil {
		return err
	}
	defer channel.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "enter")
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(text), []*os.File{channel, l.file}
	cmd.SysProcAttr = namespaces(o.RemapRoot)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == SaidExit:
		return ErrSaid
	case errors.As(err, &exit):
		return fmt.Errorf("the process that makes the container ended: %w", err)
	}
	return fmt.Errorf("make a user namespace: %w; the node must allow them (sysctl user.max_user_namespaces, "+
		"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns) and the pod must be privileged", err)
}

// namespaces asks for a user and a mount namespace in which this user is himself or root. In them, and only there, the process may mount.
func namespaces(root bool) *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	attr := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		// Who isn't root loses all capabilities at exec but for these. Overlayfs works with those of who mounts it.
		AmbientCaps: []uintptr{
			unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_CHOWN,
		},
		Pdeathsig: syscall.SIGKILL,
	}
	if root {
		attr.UidMappings[0].ContainerID, attr.GidMappings[0].ContainerID = 0, 0
	}
	return attr
}

// tasksEnvironment returns what the image says about variables, without those whose value the job keeps.
func tasksEnvironment(found settings, keep []string) []string {
	return slices.DeleteFunc(slices.Clone(found.Env), func(v string) bool {
		name, _, ok := strings.Cut(v, "=")
		return !ok || name == "" || slices.Contains(keep, name)
	})
}
