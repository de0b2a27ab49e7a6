package image

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/debian"
)

const slurmConf = `ClusterName=test
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmctldParameters=enable_configless
MaxNodeCount=8
NodeSet=workers Feature=workers
PartitionName=workers Nodes=workers Default=YES
`

// TestSlurmImages runs a cluster from the images alone: no Kubernetes, one network namespace.
func TestSlurmImages(t *testing.T) {
	if os.Getenv("SLINKY_TEST_SLURM") != "1" {
		t.Skip("builds the Slurm images and runs them as root: set SLINKY_TEST_SLURM=1")
	}
	images := slurmImages(t, "slurmctld", "slurmd", "slurmrestd")
	net := network(t)
	conf := writeConf(t, t.TempDir(), 401, slurmConf)
	hosts := filepath.Join(t.TempDir(), "hosts")
	write(t, hosts, 0, "127.0.0.1 localhost\n"+testAddress+" ctl worker-0 rest\n")

	controller := containerSpec{name: "ctl", network: net, image: images[0], files: map[string]string{"/etc/slurm": conf, "/etc/hosts": hosts}}
	ctl := runContainer(t, controller)
	ctl.eventually(t, "scontrol", "ping")

	key := filepath.Join(t.TempDir(), "slurm.key")
	copyOwned(t, filepath.Join(conf, "slurm.key"), key, 0)
	worker := runContainer(t, containerSpec{
		name: "worker-0", network: net, image: images[1], privileged: true,
		args:  []string{"-Z", "--conf-server", "ctl:6817", "--conf", `'Features=workers Topology='"$SLINKY_TOPOLOGY"''`},
		files: map[string]string{"/etc/slurm/slurm.key": key, "/etc/hosts": hosts},
	})
	if got := worker.eventually(t, "srun", "--immediate=5", "hostname"); got != "worker-0" {
		t.Errorf("srun hostname says %q", got)
	}

	restConf := t.TempDir()
	write(t, filepath.Join(restConf, "slurm.conf"), 65534, slurmConf)
	copyOwned(t, filepath.Join(conf, "slurm.key"), filepath.Join(restConf, "slurm.key"), 65534)
	rest := runContainer(t, containerSpec{
		name: "rest", network: net, image: images[2], args: []string{"-s", "openapi/slurmctld", "0.0.0.0:6820"},
		files: map[string]string{"/etc/slurm": restConf, "/etc/hosts": hosts},
	})
	token := strings.TrimPrefix(ctl.eventually(t, "scontrol", "token"), "SLURM_JWT=")
	if got := restPing(t, rest, token); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("slurmrestd answers %q", got)
	}

	t.Run("a bad configuration leaves the controller at work", func(t *testing.T) { reconfigure(t, ctl, worker, conf) })

	for name, c := range map[string]*testContainer{"slurmrestd": rest, "slurmd": worker, "slurmctld": ctl} {
		c.signal(t, syscall.SIGTERM)
		if code := c.ends(t); code != 0 {
			t.Errorf("%s ends with %d after SIGTERM, want 0", name, code)
		}
	}

	ctl = runContainer(t, controller)
	ctl.eventually(t, "scontrol", "ping")
	if err := syscall.Kill(ctl.daemon(t, "slurmctld"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := ctl.ends(t); code != 137 {
		t.Errorf("the container ends with %d when its daemon is killed, want 137", code)
	}
}

// reconfigure makes the controller re-execute itself, first with a configuration that it can't use.
func reconfigure(t *testing.T, ctl, worker *testContainer, conf string) {
	before := ctl.daemon(t, "slurmctld")
	write(t, filepath.Join(conf, "slurm.conf"), 401, strings.Replace(slurmConf, "select/cons_tres", "select/none-such", 1))
	ctl.signal(t, syscall.SIGHUP)
	waitForLog(t, ctl, "reconfigure failed")
	write(t, filepath.Join(conf, "slurm.conf"), 401, slurmConf)
	ctl.eventually(t, "scontrol", "ping")
	if after := ctl.daemon(t, "slurmctld"); after != before {
		t.Errorf("slurmctld is process %d after a failed reconfiguration, was %d", after, before)
	}
	ctl.eventually(t, "scontrol", "reconfigure")
	waitForLog(t, ctl, "entrypoint: slurmctld goes on as process")
	if after := ctl.daemon(t, "slurmctld"); after == before {
		t.Error("slurmctld did not re-execute itself")
	}
	if got := worker.eventually(t, "srun", "--immediate=5", "hostname"); got != "worker-0" {
		t.Errorf("srun hostname says %q", got)
	}
}

// TestLoginAndDatabaseImages runs the images that the first test doesn't: accounting on a database, and a login node.
func TestLoginAndDatabaseImages(t *testing.T) {
	if os.Getenv("SLINKY_TEST_SLURM") != "1" {
		t.Skip("builds the Slurm images and runs them as root: set SLINKY_TEST_SLURM=1")
	}
	images := slurmImages(t, "mariadb", "slurmdbd", "slurmctld", "login")
	net := network(t)
	hosts := filepath.Join(t.TempDir(), "hosts")
	write(t, hosts, 0, "127.0.0.1 localhost\n"+testAddress+" db dbd ctl login\n")
	conf := writeConf(t, t.TempDir(), 401, slurmConf+"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=dbd\n")
	write(t, filepath.Join(conf, "slurmdbd.conf"), 401, `AuthType=auth/slurm
AuthInfo=use_client_ids
DbdHost=dbd
SlurmUser=slurm
PidFile=/run/slurmdbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=db
StorageUser=slurm
StoragePass=it's-one
StorageLoc=slurm_acct_db
`)
	mounts := map[string]string{"/etc/slurm": conf, "/etc/hosts": hosts}
	db := containerSpec{name: "db", network: net, image: images[0], files: map[string]string{"/etc/hosts": hosts}}
	db.env = []string{"MARIADB_DATABASE=slurm_acct_db", "MARIADB_USER=slurm", "MARIADB_PASSWORD=it's-one"}
	database := runContainer(t, db)
	waitForLog(t, database, "port: 3306  --")
	dbd := runContainer(t, containerSpec{name: "dbd", network: net, image: images[1], files: mounts})
	waitForLog(t, dbd, "slurmdbd version")
	ctl := runContainer(t, containerSpec{name: "ctl", network: net, image: images[2], files: mounts})
	ctl.eventually(t, "sh", "-c", "sacctmgr --noheader --parsable2 show cluster format=cluster | grep -x test")

	key := filepath.Join(t.TempDir(), "slurm.key")
	copyOwned(t, filepath.Join(conf, "slurm.key"), key, 401)
	login := runContainer(t, containerSpec{
		name: "login", network: net, image: images[3], env: []string{"SACKD_OPTIONS=--conf-server ctl:6817"},
		files: map[string]string{"/etc/slurm/slurm.key": key, "/etc/hosts": hosts},
	})
	login.eventually(t, "sinfo")
	login.eventually(t, "bash", "-c", "read -r -t 5 line </dev/tcp/127.0.0.1/22 && [[ $line == SSH-2.0-* ]]")

	for name, c := range map[string]*testContainer{"login": login, "slurmctld": ctl, "slurmdbd": dbd, "mariadb": database} {
		c.signal(t, syscall.SIGTERM)
		if code := c.ends(t); code != 0 {
			t.Errorf("%s ends with %d after SIGTERM, want 0", name, code)
		}
	}
}

func slurmImages(t *testing.T, names ...string) []Image {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := debian.EnsureHostPackages(t.Context(), t.Output(), "runc", "iproute2"); err != nil {
		t.Fatal(err)
	}
	built, err := Build(t.Context(), Options{Cache: cache.New(filepath.Join(dir, "slinky"), nil), Source: "../../..", Names: names, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Image{}
	for _, i := range built {
		byName[shortName(i.Name)] = i
	}
	var out []Image
	for _, n := range names {
		out = append(out, byName[n])
	}
	return out
}

func writeConf(t *testing.T, dir string, uid int, conf string) string {
	t.Helper()
	// t.TempDir is closed to others, and the daemons are others.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "slurm.conf"), uid, conf)
	write(t, filepath.Join(dir, "cgroup.conf"), uid, "CgroupPlugin=disabled\n")
	write(t, filepath.Join(dir, "slurm.key"), uid, rand.Text()+rand.Text())
	write(t, filepath.Join(dir, "jwt.key"), uid, rand.Text()+rand.Text())
	return dir
}

// write makes a file that only its owner may read, as Slurm demands of keys.
func write(t *testing.T, path string, uid int, text string) {
	t.Helper()
	mode := os.FileMode(0o600)
	if uid == 0 || strings.HasSuffix(path, "slurm.conf") || strings.HasSuffix(path, "cgroup.conf") {
		mode = 0o644
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, uid, uid); err != nil {
		t.Fatal(err)
	}
}

func copyOwned(t *testing.T, from, to string, uid int) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, uid, string(text))
	if err := os.Chmod(to, 0o600); err != nil {
		t.Fatal(err)
	}
}

// restPing asks slurmrestd from inside its container, where there is no HTTP client, and returns the status line.
func restPing(t *testing.T, c *testContainer, token string) string {
	t.Helper()
	return c.eventually(t, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/6820 &&
		printf 'GET /slurm/v0.0.44/ping/ HTTP/1.1\r\nHost: x\r\nX-SLURM-USER-NAME: slurm\r\nX-SLURM-USER-TOKEN: %s\r\n\r\n' "$0" >&3 && read -r -t 10 line <&3 && echo "$line"`, token)
}
