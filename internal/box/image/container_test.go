package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// network is a network namespace with one address that isn't loopback: Slurm binds no socket where there is none.
const testAddress = "10.99.0.1"

func network(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("slinky-image-test-%d", os.Getpid())
	host(t, "ip", "netns", "add", name)
	t.Cleanup(func() { host(t, "ip", "netns", "del", name) })
	for _, args := range [][]string{
		{"link", "set", "lo", "up"}, {"link", "add", "one", "type", "veth", "peer", "name", "two"},
		{"addr", "add", testAddress + "/24", "dev", "one"}, {"link", "set", "one", "up"}, {"link", "set", "two", "up"},
	} {
		host(t, append([]string{"ip", "-n", name}, args...)...)
	}
	return name
}

func host(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// testContainer is one image run by runc.
type testContainer struct {
	id, dir string
	cmd     *exec.Cmd
}

type containerSpec struct {
	name, network string
	image         Image
	args, env     []string
	files         map[string]string // files on this machine by path in the container
	privileged    bool
}

func runContainer(t *testing.T, s containerSpec) *testContainer {
	t.Helper()
	dir := filepath.Join(t.TempDir(), s.name)
	c := &testContainer{id: fmt.Sprintf("slinky-image-test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(dir))+s.name), dir: dir}
	config := unpack(t, s.image, filepath.Join(dir, "rootfs"))
	text, err := json.Marshal(c.spec(s, config))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command("runc", "run", "--bundle", dir, c.id)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("runc", "delete", "--force", c.id).Run()
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.name, c.log())
		}
	})
	return c
}

func unpack(t *testing.T, i Image, dir string) v1.Config {
	t.Helper()
	index, err := layout.ImageIndexFromPath(i.Layout)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := v1.NewHash(i.Digest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	tar := exec.Command("tar", "--extract", "--numeric-owner", "--same-permissions", "--directory", dir)
	tar.Stdin = content
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", i.Name, err, out)
	}
	return file.Config
}

func (c *testContainer) spec(s containerSpec, config v1.Config) specs.Spec {
	var user specs.User
	if config.User != "" {
		_, _ = fmt.Sscanf(config.User, "%d:%d", &user.UID, &user.GID)
	}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT"}
	if s.privileged {
		caps = append(caps, "CAP_SYS_ADMIN", "CAP_SYS_NICE")
	}
	held := &specs.LinuxCapabilities{Bounding: caps}
	if user.UID == 0 {
		held.Effective, held.Permitted = caps, caps
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"newinstance", "ptmxmode=0666"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
	}
	for to, from := range s.files {
		mounts = append(mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"bind"}})
	}
	args := s.args
	if args == nil {
		args = config.Cmd
	}
	return specs.Spec{
		Version: specs.Version, Hostname: s.name, Mounts: mounts, Root: &specs.Root{Path: "rootfs"},
		Process: &specs.Process{Args: append(slices.Clone(config.Entrypoint), args...), Env: append(slices.Clone(config.Env), s.env...), Cwd: "/", User: user, Capabilities: held},
		Linux: &specs.Linux{
			CgroupsPath: "/" + c.id,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.UTSNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.NetworkNamespace, Path: "/run/netns/" + s.network},
			},
		},
	}
}

func (c *testContainer) exec(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "runc", append([]string{"exec", c.id}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// eventually runs a command in the container until it succeeds.
func (c *testContainer) eventually(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		out, err := c.exec(ctx, args...)
		if err == nil {
			return out
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		case <-poll.C:
		}
	}
}

// daemon returns the process id, on this machine, of the container's daemon.
func (c *testContainer) daemon(t *testing.T, name string) int {
	t.Helper()
	var pids []int
	if err := json.Unmarshal([]byte(host(t, "runc", "ps", "--format", "json", c.id)), &pids); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(line), name+"\x00") {
			return pid
		}
	}
	t.Fatalf("no process %s in %s", name, c.id)
	return 0
}

func (c *testContainer) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	host(t, "runc", "kill", c.id, fmt.Sprint(int(s)))
}

// ends waits for the container's end and returns its code.
func (c *testContainer) ends(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { _ = exec.Command("runc", "delete", "--force", c.id).Run() })
	defer timer.Stop()
	err := c.cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return 0
}

func (c *testContainer) log() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// waitForLog waits until the container has written a text.
func waitForLog(t *testing.T, c *testContainer, text string) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(time.Minute)
	for !strings.Contains(c.log(), text) {
		select {
		case <-deadline:
			t.Fatalf("%s never wrote %q", c.id, text)
		case <-poll.C:
		}
	}
}
