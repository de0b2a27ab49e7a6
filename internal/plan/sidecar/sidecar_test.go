package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func raw(text string) v1beta1.RawObject { return v1beta1.RawObject{JSON: []byte(text)} }

func TestContainers(t *testing.T) {
	mounts := []corev1.VolumeMount{{Name: "etc", MountPath: "/etc/slurm", ReadOnly: true}}
	for name, build := range map[string]func(v1beta1.ContainerWrapper) (corev1.Container, error){
		"logfile": func(user v1beta1.ContainerWrapper) (corev1.Container, error) {
			return Logfile("slurmd.log", "own:1", user)
		},
		"reconfigure": func(user v1beta1.ContainerWrapper) (corev1.Container, error) {
			return Reconfigure("own:1", user, mounts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := build(v1beta1.RawObject{})
			if err != nil {
				t.Fatal(err)
			}
			// An init container that always restarts is a sidecar: it starts before the daemon and ends after it.
			if c.Name != name || c.Image != "own:1" || c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways || len(c.VolumeMounts) != 1 {
				t.Errorf("got %+v", c)
			}
			c, err = build(raw(`{"image":"theirs:2","resources":{"limits":{"memory":"32Mi"}}}`))
			if err != nil || c.Image != "theirs:2" || c.Resources.Limits.Memory().String() != "32Mi" || len(c.Command) != 3 {
				t.Errorf("got %+v, %v", c, err)
			}
			if _, err = build(raw(`{"image":1}`)); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("got %v", err)
			}
		})
	}
	c, err := Logfile("slurmd.log", "own:1", v1beta1.RawObject{})
	if err != nil || c.Env[0] != (corev1.EnvVar{Name: "SOCKET", Value: "/var/log/slurm/slurmd.log"}) {
		t.Errorf("env is %v, %v", c.Env, err)
	}
}

// script runs one in a shell that ends with the test.
func script(t *testing.T, text string, env ...string) (out *lines, cmd *exec.Cmd) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(stop)
	cmd = exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Env = append(os.Environ(), env...)
	out = &lines{got: make(chan string, 100)}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return out, cmd
}

// lines hands out what is written, line by line.
type lines struct {
	rest []byte
	got  chan string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		l.got <- string(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

func (l *lines) next(t *testing.T) string {
	t.Helper()
	select {
	case s := <-l.got:
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was printed")
		return ""
	}
}

// S047: the log goes on over the end of a writer, and the container ends when it is told to.
func TestLogScript(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "slurmd.log")
	// A file that a daemon made before the sidecar ran gives way.
	if err := os.WriteFile(fifo, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mkfifo"), []byte("#!/bin/sh\n"+mkfifo+" \"$@\" && echo made\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, cmd := script(t, logScript, "SOCKET="+fifo, "PATH="+bin+":"+os.Getenv("PATH"))
	if got := out.next(t); got != "made" {
		t.Fatalf("got %q", got)
	}
	for i := range 3 {
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("line %d", i)
		fmt.Fprintln(w, want)
		w.Close()
		if got := out.next(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// S047: a daemon that has the log open doesn't notice that its reader is gone for a while, and
// the lines arrive at the next one.
func TestLogOutlivesItsReader(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "slurmctld.log")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, first := script(t, logScript, "SOCKET="+fifo)
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	out, _ := script(t, logScript, "SOCKET="+fifo)
	again, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the next reader
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, file := range []*os.File{w, again} {
		if _, err := fmt.Fprintln(file, "a line"); err != nil {
			t.Fatalf("the same pipe isn't read any more: %v", err)
		}
		if got := out.next(t); got != "a line" {
			t.Errorf("got %q", got)
		}
	}
}

// S025 and S053: each state of the folder is applied once, and again and again until that works.
func TestReconfigureScript(t *testing.T) {
	dir := t.TempDir()
	bin, etc := filepath.Join(dir, "bin"), filepath.Join(dir, "etc")
	swap := func(target string) {
		t.Helper()
		// As the kubelet does it: the new link takes the place of the old one.
		if err := os.Symlink(target, filepath.Join(etc, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(etc, "..tmp"), filepath.Join(etc, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{bin, etc} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// scontrol fails at its first call: slurmctld isn't up yet. The pause is none here.
	programs := map[string]string{
		"scontrol": "#!/bin/sh\necho \"scontrol $*\"\n[ -e " + dir + "/up ] || { touch " + dir + "/up; exit 1; }\n",
		"sleep":    "#!/bin/sh\nexit 0\n",
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1")
	out, _ := script(t, strings.ReplaceAll(reconfigureScript, "/etc/slurm", etc), "PATH="+bin+":"+os.Getenv("PATH"))
	for i, want := range []string{
		"scontrol reconfigure", "scontrol reconfigure", "slurmctld has read its configuration: ..1", // swap to ..2
		"scontrol reconfigure", "slurmctld has read its configuration: ..2",
	} {
		if got := out.next(t); got != want {
			t.Fatalf("line %d is %q, want %q", i, got, want)
		}
		if i == 2 {
			swap("..2")
		}
	}
}
