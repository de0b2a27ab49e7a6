package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// setup runs first inside the new namespaces: $1 is the root file system, $2 the cluster's folder.
const setup = `set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --bind "$2" "$1/cluster"
mount --bind "$2/etc" "$1/etc/slurm"
mount --bind "$2/hosts" "$1/etc/hosts"
mount --bind "$2/tmp" "$1/tmp"
mount --bind "$2/run" "$1/run"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
exec chroot "$1" /bin/bash /cluster/init.sh`

// namespace is the PID, mount, host name and IPC namespace of one cluster. Its
// network is the machine's.
type namespace struct {
	process *os.Process
	// ended is closed when PID 1 and with it every process of the namespace is gone.
	ended chan struct{}
}

func newNamespace(root, dir string) (*namespace, error) {
	out, err := os.Create(filepath.Join(dir, "log", "init.out"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/bash", "-c", setup, "slurmtest", root, dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL, // a killed test leaves nothing behind
	}
	n := &namespace{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig is about the thread that started the process, so that thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		out.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal; the state says nothing
		}
		close(n.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("make namespaces for Slurm: %w", err)
	}
	n.process = cmd.Process
	return n, nil
}

func (n *namespace) stop() {
	_ = n.process.Kill()
	<-n.ended
}

// command returns a command that runs inside.
func (n *namespace) command(ctx context.Context, argv ...string) *exec.Cmd {
	args := append([]string{"-t", strconv.Itoa(n.process.Pid), "-m", "-p", "-u", "-i", "-r", "--", "/usr/bin/env", "-C", "/tmp"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8"}
	return cmd
}

// Run runs a program such as scontrol or squeue inside the cluster, as root,
// and returns what it printed. The test fails if the program does.
func (c *Cluster) Run(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := c.init.command(t.Context(), argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Command returns a command that runs a program inside the cluster, as root, for
// whom a failure is no end of the test.
func (c *Cluster) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return c.init.command(ctx, argv...)
}

// RunAs is Run as another user of the cluster: alice or bob.
func (c *Cluster) RunAs(t testing.TB, user string, argv ...string) string {
	t.Helper()
	return c.Run(t, append([]string{"chroot", "--userspec=" + user + ":" + user, "/"}, argv...)...)
}

// Kill sends SIGKILL to a daemon, "slurmctld", "slurmrestd" or the name of a
// node, and waits until it has gone and its port is free.
func (c *Cluster) Kill(t testing.TB, daemon string) {
	t.Helper()
	c.signal(t, daemon, "KILL")
	c.Run(t, "bash", "-c", `while [ -e "/proc/$(cat "/cluster/run/$1.pid")" ]; do sleep 0.01; done`, "kill", daemon)
}

// Stop makes a daemon stand still until Continue.
func (c *Cluster) Stop(t testing.TB, daemon string) {
	t.Helper()
	c.signal(t, daemon, "STOP")
	// The signal reaches a daemon's threads one after the other; each shows T when it stands.
	c.Run(t, "bash", "-c", `for f in "/proc/$(cat "/cluster/run/$1.pid")/task/"*/status; do
		until [[ $(<"$f") == *"State:"[[:space:]]"T"* ]]; do [ -e "$f" ] || break; done
	done`, "stop", daemon)
}

// Continue ends a Stop.
func (c *Cluster) Continue(t testing.TB, daemon string) { c.signal(t, daemon, "CONT") }

func (c *Cluster) signal(t testing.TB, daemon, signal string) {
	t.Helper()
	c.Run(t, "bash", "-c", `kill -"$1" "$(cat "/cluster/run/$2.pid")"`, "kill", signal, daemon)
}

// Restart starts a daemon again after Kill.
func (c *Cluster) Restart(t testing.TB, daemon string) {
	t.Helper()
	c.Run(t, "/bin/bash", "/cluster/init.sh", "start", daemon)
}

// logs returns the ends of all logs.
func (c *Cluster) logs() string {
	files, _ := filepath.Glob(filepath.Join(c.dir, "log", "*"))
	var b strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) || len(data) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n--- %s\n%s", filepath.Base(f), tail(string(data), 3000))
	}
	return b.String()
}

// portTaken tells whether a daemon found its port in use.
func portTaken(c *Cluster) bool {
	return c != nil && strings.Contains(c.logs(), "Address already in use")
}

func tail(s string, n int) string {
	if len(s) > n {
		s = s[len(s)-n:]
	}
	return s
}
