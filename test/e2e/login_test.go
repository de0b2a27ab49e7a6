package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
)

// sshKey makes a key of a user.
func sshKey(t *testing.T) (signer ssh.Signer, authorized string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		signer, err = ssh.NewSignerFromSigner(private)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// forward makes a port of a pod, a Service or a Deployment a port of this machine, and returns its address.
func (b *box) forward(to, port string) string {
	b.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, b.slinky, "kubectl", "--name", b.name, "port-forward", "-n", b.namespace, to, ":"+port)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		b.t.Fatalf("forward a port to %s: %v", to, err)
	}
	b.t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) `).FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // or kubectl blocks
				}
			}()
			return m[1]
		}
	}
	b.t.Fatalf("kubectl port-forward to %s ended: %v", to, lines.Err())
	return ""
}

// account is who logs in.
type account struct {
	user  string
	auth  ssh.AuthMethod
	check ssh.HostKeyCallback // nil for any host key
}

func dial(address string, a account) (*ssh.Client, error) {
	config := &ssh.ClientConfig{User: a.user, Auth: []ssh.AuthMethod{a.auth}, HostKeyCallback: a.check,
		HostKeyAlgorithms: []string{ssh.KeyAlgoECDSA256}, Timeout: patience}
	if a.check == nil {
		config.HostKeyCallback = ssh.InsecureIgnoreHostKey()
	}
	return ssh.Dial("tcp", address, config)
}

// remote logs in and runs one command.
func remote(address string, a account, command string) (string, error) {
	client, err := dial(address, a)
	if err != nil {
		return "", err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	session.Stderr = &stderr
	out, err := session.Output(command)
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// answers logs in, if need be again and again until the service is up, and returns what the command prints.
func (b *box) answers(address string, a account, command string) string {
	b.t.Helper()
	var out string
	b.until(a.user+" can log in and run "+command, func(context.Context) (err error) {
		out, err = remote(address, a, command)
		return err
	})
	return out
}

// refused checks that a login fails as one that isn't allowed.
func (b *box) refused(address string, a account, why string) {
	b.t.Helper()
	if out, err := remote(address, a, "id"); err == nil {
		b.t.Errorf("%s: %s was let in, and is %s", why, a.user, out)
	} else if !strings.Contains(err.Error(), "unable to authenticate") && !strings.Contains(err.Error(), "EOF") {
		b.t.Errorf("%s: %s: %v", why, a.user, err)
	}
}

const loginSet = `apiVersion: slinky.slurm.net/v1beta1
kind: LoginSet
metadata: {name: login}
spec:
  controllerRef: {name: slurm}
  sssdConfRef: {name: sssd, key: sssd.conf}
  rootSshAuthorizedKeys: %s
  extraSshdConfig: |
    AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys
    AuthorizedKeysCommandUser nobody
    # All that comes by kubectl port-forward has one address.
    PerSourcePenalties no
  login:
    volumeMounts:
    - {name: directory, mountPath: /etc/directory}
  template:
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      volumes:
      - {name: directory, secret: {secretName: directory-tls, items: [{key: tls.crt, path: tls.crt}]}}
`

// loginCluster is the example's cluster with ssh in its workers.
func (b *box) loginCluster() *cluster {
	manifest := strings.Replace(b.exampleCluster(), "  partition:\n", `  ssh:
    enabled: true
    sssdConfRef: {name: sssd, key: sssd.conf}
    extraSshdConfig: PerSourcePenalties no
  partition:
`, 1)
	manifest = strings.Replace(manifest, "    volumeMounts:\n", "    volumeMounts:\n      - {name: directory, mountPath: /etc/directory}\n", 1)
	manifest = strings.Replace(manifest, "      volumes:\n", "      volumes:\n        - {name: directory, secret: {secretName: directory-tls, items: [{key: tls.crt, path: tls.crt}]}}\n", 1)
	return b.cluster(manifest)
}

// Users of a real OpenLDAP log in by ssh, submit jobs as themselves, and reach workers by ssh where, and as long as, they have a
// job there.
func TestLoginByDirectory(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-login")
	adaSigner, adaKey := sshKey(t)
	rootSigner, rootKey := sshKey(t)
	b.directory(adaKey)
	b.secret("sssd", map[string]string{"sssd.conf": sssdConf})
	b.apply(fmt.Sprintf(loginSet, rootKey))
	c := b.loginCluster()
	b.wait("pod/directory", "condition=Ready")
	b.wait("loginset/login", "condition=Ready")
	c.nodesAre("idle", "cpu-0", "cpu-1")

	login := b.forward("deployment/login", "22")
	ada := account{user: "ada", auth: ssh.Password("engine"), check: b.hostKey()}
	adaByKey := account{user: "ada", auth: ssh.PublicKeys(adaSigner)}
	root := account{user: "root", auth: ssh.PublicKeys(rootSigner)}

	const id = "uid=20001(ada) gid=20000(science) groups=20000(science),20005(project)"
	if got := b.answers(login, ada, "id"); got != id {
		t.Errorf("by password ada is %s, want %s", got, id)
	}
	if got := b.answers(login, adaByKey, "id"); got != id {
		t.Errorf("by key ada is %s, want %s", got, id)
	}
	t.Run("who may not log in", func(t *testing.T) {
		b := b.in(t)
		b.refused(login, account{user: "ada", auth: ssh.Password("wrong")}, "a wrong password")
		b.refused(login, account{user: "eve", auth: ssh.Password("apple")}, "the access filter of sssd.conf")
		b.refused(login, account{user: "root", auth: ssh.PublicKeys(adaSigner)}, "a key that isn't root's")
		b.refused(login, account{user: "mallory", auth: ssh.Password("x")}, "nobody of this name")
	})
	t.Run("jobs run as who submitted them", func(t *testing.T) {
		b := b.in(t)
		if got := b.answers(login, ada, "srun --nodes=1 id"); got != id {
			t.Errorf("srun as ada runs as %s, want %s", got, id)
		}
		job := b.answers(login, adaByKey, "sbatch --parsable --wait --nodelist=cpu-1 --output=/tmp/job.out --wrap id")
		c.jobIs(job, "COMPLETED")
		if got := strings.TrimSpace(b.kubectl("exec", "-n", b.namespace, "cpu-1", "-c", "slurmd", "--", "cat", "/tmp/job.out")); got != id {
			t.Errorf("job %s ran as %s, want %s", job, got, id)
		}
	})
	t.Run("ssh to workers", func(t *testing.T) { b.in(t).workerAccess(c, login, adaByKey, ada) })
	t.Run("check 22: root's keys take effect in running pods", func(t *testing.T) { b.in(t).rootKeys(login, root) })
}

// hostKey accepts the host key that the LoginSet's Secret holds, and no other.
func (b *box) hostKey() ssh.HostKeyCallback {
	b.t.Helper()
	var secret corev1.Secret
	b.get(&secret, "secret", "login-ssh-host-keys")
	key, _, _, _, err := ssh.ParseAuthorizedKey(secret.Data["ssh_host_ecdsa_key.pub"])
	if err != nil {
		b.t.Fatal(err)
	}
	return ssh.FixedHostKey(key)
}

// workerAccess goes through a worker without a job, with one, and with one that ends.
func (b *box) workerAccess(c *cluster, login string, onLogin, user account) {
	b.t.Helper()
	with, without := b.forward("pod/cpu-0", "22"), b.forward("pod/cpu-1", "22")
	user.check = nil
	b.refused(with, user, "no job on cpu-0")
	job := b.answers(login, onLogin, "sbatch --parsable --nodelist=cpu-0 --output=/dev/null --wrap 'sleep 3600'")
	c.jobIs(job, "RUNNING")
	cgroups := b.answers(with, user, "cat /proc/self/cgroup")
	if !strings.Contains(cgroups, "job_"+job+"/step_extern") {
		b.t.Errorf("the session isn't part of job %s:\n%s", job, cgroups)
	}
	b.refused(without, user, "a job on the other worker only")
	client, err := dial(with, user)
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err == nil {
		err = session.Start("exec sleep 3600")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	b.answers(login, onLogin, "scancel "+job)
	select {
	case err := <-ended:
		if err == nil {
			b.t.Error("sleep 3600 ended by itself")
		}
	case <-time.After(patience):
		b.t.Errorf("the session outlives job %s", job)
	}
}

// rootKeys takes root's key back and gives another one, while the pod goes on.
func (b *box) rootKeys(login string, old account) {
	b.t.Helper()
	uids := func() string {
		return b.kubectl("get", "pods", "-n", b.namespace, "-l", "app.kubernetes.io/name=login", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	before := uids()
	if got := b.answers(login, old, "id -un"); got != "root" {
		b.t.Errorf("root is %s", got)
	}
	signer, key := sshKey(b.t)
	b.kubectl("patch", "-n", b.namespace, "loginset/login", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"rootSshAuthorizedKeys":%q}}`, key))
	b.answers(login, account{user: "root", auth: ssh.PublicKeys(signer)}, "true")
	b.refused(login, old, "a key that was taken back")
	if after := uids(); after != before {
		b.t.Errorf("the pods were %s and are %s", before, after)
	}
}
