package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid, ns, cmdline string) {
		t.Helper()
		write("proc/"+pid+"/cmdline", cmdline)
		for _, kind := range []string{"pid", "mnt", "net"} {
			if err := os.MkdirAll(filepath.Join(root, "proc", pid, "ns"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(kind+":["+ns+"]", filepath.Join(root, "proc", pid, "ns", kind)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const mounts = "20 1 0:19 / /proc rw - proc proc rw\n"
	process("self", "1", "us")
	process("7", "1", "init\x00")
	write("proc/self/mountinfo", mounts)
	write("sys/class/net/lo", "")
	boxes := filepath.Join(root, "boxes")
	before, err := look(root, boxes)
	if err != nil {
		t.Fatal(err)
	}
	if left := before.minus(before); len(left) != 0 {
		t.Errorf("nothing changed, yet these are left: %q", left)
	}
	process("8", "1", "sleep\x009\x00")
	process("9", "2", "kubelet\x00--v\x00")
	write("proc/self/mountinfo", mounts+"21 1 0:20 / /cache/boxes/test rw - overlay o rw\n")
	write("sys/class/net/veth0", "")
	write("run/netns/slinky-test-node-1", "")
	write("sys/fs/cgroup/slinky-test/node-1/tasks", "")
	write("boxes/test/state.json", "")
	after, err := look(root, boxes)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"cgroup " + root + "/sys/fs/cgroup/slinky-test",
		"cgroup " + root + "/sys/fs/cgroup/slinky-test/node-1",
		"folder of the box test",
		"mount /cache/boxes/test",
		"network interface veth0",
		"network namespace slinky-test-node-1",
		"process 9 kubelet --v",
	}
	if d := cmp.Diff(want, after.minus(before)); d != "" {
		t.Errorf("leftovers (-want +got):\n%s", d)
	}
}
