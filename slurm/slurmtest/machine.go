package slurmtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// onMachine runs on the test's own system, in the cluster's namespaces: $1 is the root file system, $2 the host's name, $3 the
// user, $4 the daemon's name; the rest is its command.
const onMachine = `set -e
root=$1 host=$2 user=$3 name=$4
shift 4
echo "$host" >/proc/sys/kernel/hostname
mount -t tmpfs run "$root/run"
mount -t tmpfs spool "$root/var/spool"
mkdir -m 755 "$root/run/slurm" "$root/run/slurmctld"
chroot "$root" /bin/bash -c 'chown "$1:$1" /run /run/slurm /run/slurmctld' chown "$user"
echo $$ >"$root/cluster/run/$name.pid"
exec >>"$root/cluster/log/$name.out" 2>&1 </dev/null
exec env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 SLURMTEST_HOST="$host" chroot --userspec="$user:$user" "$root" "$@"`

// Machine is a machine of its own in a cluster: daemons there have a host name, an address and a
// /run of their own. It is for a second slurmctld, and for slurmd with a dynamic node.
type Machine struct {
	cluster *Cluster
	host    string
}

// Machine makes a machine with a name and an address of 127.0.0.0/8. The name may be that of
// the cluster's own host, slurmctl, which has 127.0.0.1.
func (c *Cluster) Machine(t testing.TB, host, address string) *Machine {
	t.Helper()
	path := filepath.Join(c.dir, "hosts")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), " "+host+"\n") {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, "%s %s\n", address, host)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return &Machine{cluster: c, host: host}
}

// Start starts a daemon as a user of the cluster, under a name by which Kill, Stop and Continue
// of the cluster know it. It ends with the cluster. ended is closed when it has ended.
func (m *Machine) Start(t testing.TB, name, user string, argv ...string) (ended <-chan struct{}) {
	t.Helper()
	args := []string{"-t", strconv.Itoa(m.cluster.init.process.Pid), "-m", "-p", "-u", "-i", "--",
		"unshare", "-m", "-u", "--", "/bin/bash", "-c", onMachine, "slurmtest", m.cluster.root, m.host, user, name}
	cmd := exec.Command("nsenter", append(args, argv...)...)
	out, err := os.Create(filepath.Join(m.cluster.dir, "log", name+".start"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends by our signal; the state says nothing
		close(done)
	}()
	return done
}

// Put copies a file into the cluster, where it is /cluster/NAME.
func (c *Cluster) Put(t testing.TB, path, name string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Log returns what a daemon has said.
func (c *Cluster) Log(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "log", name+".out"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}
