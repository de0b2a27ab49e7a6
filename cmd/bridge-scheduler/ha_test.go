package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/cli"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// asProgram makes the test's binary be the scheduler's.
const asProgram = "SLINKY_TEST_AS_BRIDGE_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(newCommand(os.Getenv)))
	}
	os.Exit(m.Run())
}

// program is the scheduler's program with arguments, in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// replica is one of several schedulers.
type replica struct {
	cmd     *exec.Cmd
	address string
	client  *http.Client
	ended   chan error
}

// replica starts a scheduler as it is installed, with an election and its endpoints.
func (w *world) replica(t *testing.T) *replica {
	t.Helper()
	dir := t.TempDir()
	bridge, err := yaml.Marshal(w.settings)
	if err != nil {
		t.Fatal(err)
	}
	kube := filepath.Join(dir, "kubeconfig")
	w.write(dir, "kubeconfig", kubeconfig(t, w.scheduler))
	w.write(dir, "bridge.yaml", string(bridge))
	// Short, and long enough for a slow machine to renew it.
	w.write(dir, "scheduler.yaml", w.profile.With(t, kube, "leaderElect: true", "leaseDuration: 6s", "renewDeadline: 4s", "retryPeriod: 500ms"))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		err = free.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{address: address, ended: make(chan error, 1), client: &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: w.adminTLS(t)},
	}}
	r.cmd = program(t, "--config="+filepath.Join(dir, "scheduler.yaml"), "--bridge-config="+filepath.Join(dir, "bridge.yaml"),
		"--slurm-jwt-key-file="+w.keyFile, "--bridge-namespace=slinky", "--bind-address=127.0.0.1", "--secure-port="+port,
		"--authentication-kubeconfig="+kube, "--authorization-kubeconfig="+kube)
	var log output
	r.cmd.Stdout, r.cmd.Stderr = &log, &log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // It may have ended.
		if t.Failed() {
			t.Logf("the log of the scheduler with process %d:\n%s", r.cmd.Process.Pid, log.String())
		}
	})
	w.eventually(t, "the scheduler is ready", func() error {
		_, err := r.get("/readyz")
		return err
	})
	return r
}

// output is a log that is written and read at once.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// adminTLS is how an administrator of this API server shows who asks, to a program whose certificate nobody signed.
func (w *world) adminTLS(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(w.scheduler.CertData, w.scheduler.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// get asks one of the scheduler's endpoints.
func (r *replica) get(path string) (string, error) {
	res, err := r.client.Get("https://" + r.address + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, res.StatusCode, text)
	}
	return string(text), err
}

// leaseHolder waits until the lease has a holder other than the one before, and returns it.
func (w *world) leaseHolder(t *testing.T, before string) (holder string) {
	t.Helper()
	w.eventually(t, "a scheduler has the lease", func() error {
		lease, err := w.kube.CoordinationV1().Leases("slinky").Get(t.Context(), config.DefaultSchedulerName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || *lease.Spec.HolderIdentity == before {
			return errWait
		}
		holder = *lease.Spec.HolderIdentity
		return nil
	})
	return holder
}

// leaderIsKilled runs two schedulers in processes of their own and kills the one
// that acts in the midst of its work. The other one goes on with all of it.
func (w *world) leaderIsKilled(t *testing.T) {
	w.stop()
	defer w.start()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w.cancel = cancel
	w.startControllers(ctx)
	defer w.stop()

	first := w.replica(t)
	before := w.leaseHolder(t, "")
	second := w.replica(t)
	for i := range 6 {
		w.pod(fmt.Sprintf("ha-%d", i), nil)
	}
	w.eventually(t, "some pod has its job", func() error {
		pods, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelJobID})
		if err == nil && len(pods.Items) == 0 {
			err = errWait
		}
		return err
	})
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	w.pod("ha-6", nil)
	w.leaseHolder(t, before)
	t.Logf("the other one leads after %v", time.Since(killed).Round(time.Millisecond))
	w.finishAll(t, 7)
	w.oneJobEach(t, 7)
	// It goes when it is told to, and leaves the lease to others at once.
	if err := second.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-second.ended:
		if err != nil {
			t.Errorf("told to end, the scheduler ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("told to end, the scheduler goes on")
	}
}

// finishAll plays the kubelet for the pods ha-0 and on, until each of them has run and ended.
func (w *world) finishAll(t *testing.T, pods int) {
	t.Helper()
	for i := range pods {
		name := fmt.Sprintf("ha-%d", i)
		w.eventually(t, "pod "+name+" ends", func() error {
			for j := range pods {
				pod, err := w.get(fmt.Sprintf("ha-%d", j))
				if err != nil {
					return err
				}
				if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded {
					w.kubelet(t, pod.Name, corev1.PodSucceeded)
				}
			}
			pod, err := w.get(name)
			if err == nil && pod.Status.Phase != corev1.PodSucceeded {
				err = fmt.Errorf("%w: conditions %+v", errWait, pod.Status.Conditions)
			}
			return err
		})
	}
}

// oneJobEach checks that Slurm was asked for each pod once.
func (w *world) oneJobEach(t *testing.T, pods int) {
	t.Helper()
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		pod, err := w.get(fmt.Sprintf("ha-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint32
		for _, j := range jobs {
			if strings.Contains(j.AdminComment, string(pod.UID)) && !workload.RefusedAtOnce(j) {
				ids = append(ids, j.ID)
			}
		}
		if len(ids) != 1 {
			t.Errorf("pod %s has the jobs %v, not one", pod.Name, ids)
		}
	}
}
