package dracpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/plugins/default-validator/builtin"
	"github.com/go-logr/logr/testr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerpb "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// patience is how long one thing may take on a loaded machine.
const patience = 60 * time.Second

// until waits for f to have nothing to complain of.
func until(t *testing.T, what string, f func() error) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); ; <-again.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after %s: %v", what, patience, err)
		}
	}
}

// tolerateMissing is the annotation of pods that the runtime of a test makes without required plugins.
const tolerateMissing = "tolerate-missing-plugins.example.com"

// testNode is a node without kubelet and containerd: NRI's own runtime side, the driver, and its sockets.
type testNode struct {
	t    *testing.T
	dir  string // short: it holds sockets
	kube kubernetes.Interface
	sys  fstest.MapFS
	d    *driver
	end  func() // ends the driver and waits for it
	// required are the plugins without which the runtime makes no container.
	required []string

	mu      sync.Mutex
	nri     *adaptation.Adaptation
	front   io.Closer // what a driver connects to
	running map[string]*api.Container
	cpus    map[string]string // of each container's cgroup
}

func newTestNode(t *testing.T, kube kubernetes.Interface) *testNode {
	n := &testNode{t: t, dir: t.TempDir(), kube: kube, running: map[string]*api.Container{}, cpus: map[string]string{}, sys: fstest.MapFS{}}
	n.online("0-7")
	t.Cleanup(func() {
		n.stopDriver()
		n.stopRuntime()
	})
	return n
}

// online makes the node's CPUs: two NUMA nodes of the lower and the upper half of eight.
func (n *testNode) online(list string) {
	sys := fstest.MapFS{"devices/system/cpu/online": {Data: []byte(list + "\n")}}
	for id := range set(list).All() {
		at := fmt.Sprintf("devices/system/cpu/cpu%d/", id)
		sys[at+"topology/physical_package_id"] = &fstest.MapFile{Data: []byte("0\n")}
		sys[at+"topology/core_id"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", id)}
		sys[fmt.Sprintf("%snode%d/cpulist", at, id/4)] = &fstest.MapFile{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sys = sys
}

// liveSys is the node's /sys as it is when it is read.
type liveSys struct{ n *testNode }

func (l liveSys) Open(name string) (fs.File, error) {
	l.n.mu.Lock()
	sys := l.n.sys
	l.n.mu.Unlock()
	return sys.Open(name)
}

func (n *testNode) socket() string { return filepath.Join(n.dir, "nri.sock") }

// startRuntime starts the runtime's side of NRI, which tells a plugin of what runs.
func (n *testNode) startRuntime() {
	n.t.Helper()
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		n.mu.Lock()
		var pods []*api.PodSandbox
		for _, c := range n.running {
			pods = append(pods, pod(strings.TrimPrefix(c.GetPodSandboxId(), "sandbox-")))
		}
		all := slices.Collect(maps.Values(n.running))
		n.mu.Unlock()
		u, err := tell(ctx, pods, all)
		n.carryOut(u)
		return err
	}
	update := func(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return n.carryOut(u), nil
	}
	validator := builtin.GetDefaultValidator(&builtin.DefaultValidatorConfig{Enable: true, RequiredPlugins: n.required, TolerateMissingAnnotation: tolerateMissing})
	a, err := adaptation.New("containerd", "v2.2.0", sync, update, adaptation.WithBuiltinPlugins(validator), adaptation.WithSocketPath(n.socket()+".own"),
		adaptation.WithPluginPath(filepath.Join(n.dir, "none")), adaptation.WithPluginConfigPath(filepath.Join(n.dir, "none")))
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	n.nri, n.front = a, newFront(n.t, n.socket(), n.socket()+".own")
	n.mu.Unlock()
}

// front passes connections on. NRI's runtime side never closes one of a plugin; a
// runtime that ends does.
type front struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

func newFront(t *testing.T, from, to string) *front {
	_ = os.Remove(from)
	l, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{listener: l}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			f.mu.Lock()
			f.conns = append(f.conns, in, out)
			f.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			go pass(in, out)
			go pass(out, in)
		}
	}()
	return f
}

func (f *front) Close() error {
	err := f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close() // those that have ended are closed already
	}
	return err
}

func (n *testNode) stopRuntime() {
	n.mu.Lock()
	a, f := n.nri, n.front
	n.nri = nil
	n.mu.Unlock()
	if a != nil {
		_ = f.Close()
		a.Stop()
	}
}

// carryOut fails for containers that the runtime doesn't have.
func (n *testNode) carryOut(updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, u := range updates {
		if n.running[u.GetContainerId()] == nil {
			failed = append(failed, u)
			continue
		}
		n.setCPUs(u.GetContainerId(), u.GetLinux().GetResources().GetCpu().GetCpus())
	}
	return failed
}

// setCPUs is what the runtime keeps in a container's specification. mu is held.
func (n *testNode) setCPUs(id, list string) {
	n.cpus[id] = list
	n.running[id].Linux = &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: list}}}
}

// run brings a container up, as kubelet and the runtime do.
func (n *testNode) run(pods, id string, env ...string) error {
	n.mu.Lock()
	a := n.nri
	n.mu.Unlock()
	c, p := ctr(id, pods, env...), pod(pods)
	r, err := a.CreateContainer(n.t.Context(), &adaptation.CreateContainerRequest{Pod: p, Container: c})
	if err != nil {
		return err
	}
	n.carryOut(r.GetUpdate())
	n.mu.Lock()
	n.running[id] = c
	n.setCPUs(id, cpusOf(r.GetAdjust()))
	n.mu.Unlock()
	if err := a.PostCreateContainer(n.t.Context(), &adaptation.PostCreateContainerRequest{Pod: p, Container: c}); err != nil {
		return err
	}
	c.State = api.ContainerState_CONTAINER_RUNNING
	return a.PostStartContainer(n.t.Context(), &adaptation.PostStartContainerRequest{Pod: p, Container: c})
}

func (n *testNode) stop(id string) {
	n.t.Helper()
	n.mu.Lock()
	a, c := n.nri, n.running[id]
	delete(n.running, id)
	n.mu.Unlock()
	if _, err := a.StopContainer(n.t.Context(), &adaptation.StopContainerRequest{Pod: pod("p"), Container: c}); err != nil {
		n.t.Fatal(err)
	}
}

// has waits until the container has the CPUs.
func (n *testNode) has(id, want string) {
	n.t.Helper()
	until(n.t, "container "+id+" has "+want, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cpus[id] != want {
			return fmt.Errorf("it has %q", n.cpus[id])
		}
		return nil
	})
}

// startDriver starts a run of the driver on the node.
func (n *testNode) startDriver(c Config) {
	n.t.Helper()
	ctx, stop := context.WithCancelCause(context.WithoutCancel(n.t.Context()))
	d, err := newDriver(Options{
		Config: c, NodeName: "node-1", Kube: n.kube, Log: testr.NewWithOptions(n.t, testr.Options{}), Sys: liveSys{n}, Cgroups: fstest.MapFS{},
		Proc:        fstest.MapFS{"sys/kernel/random/boot_id": {Data: []byte("boot\n")}},
		KubeletRoot: n.dir, CDIDir: filepath.Join(n.dir, "cdi"), NRISocket: n.socket(), Address: "127.0.0.1:0", Every: 200 * time.Millisecond,
	}, stop)
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.run(ctx, stop) }()
	n.d = d
	n.end = func() {
		stop(context.Canceled)
		if err := <-done; err != nil {
			n.t.Errorf("the driver ends with: %v", err)
		}
	}
}

func (n *testNode) stopDriver() {
	if n.end != nil {
		n.end()
		n.end = nil
	}
}

// dial is kubelet's connection to one of the driver's sockets.
func (n *testNode) dial(path ...string) *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(append([]string{n.dir}, path...)...), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// register does what kubelet does when it finds the driver.
func (n *testNode) register() {
	n.t.Helper()
	client := registerpb.NewRegistrationClient(n.dial("plugins_registry", "dra.cpu-reg.sock"))
	until(n.t, "kubelet finds the driver", func() error {
		info, err := client.GetInfo(n.t.Context(), &registerpb.InfoRequest{})
		if err != nil {
			return err
		}
		if info.GetName() != "dra.cpu" {
			return fmt.Errorf("its name is %q", info.GetName())
		}
		_, err = client.NotifyRegistrationStatus(n.t.Context(), &registerpb.RegistrationStatus{PluginRegistered: true})
		return err
	})
}

// prepare asks as kubelet, and returns the CDI devices.
func (n *testNode) prepare(uid, name string) ([]string, error) {
	n.t.Helper()
	client := drapb.NewDRAPluginClient(n.dial("plugins", "dra.cpu", "dra.sock"))
	r, err := client.NodePrepareResources(n.t.Context(), &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Uid: uid, Namespace: "default", Name: name}}})
	if err != nil {
		return nil, err
	}
	answer := r.GetClaims()[uid]
	if answer.GetError() != "" {
		return nil, errors.New(answer.GetError())
	}
	var out []string
	for _, d := range answer.GetDevices() {
		for _, id := range d.GetCdiDeviceIds() {
			if strings.HasPrefix(id, cdiKind) {
				out = append(out, id)
			}
		}
	}
	return out, nil
}

func (n *testNode) unprepare(uid, name string) {
	n.t.Helper()
	client := drapb.NewDRAPluginClient(n.dial("plugins", "dra.cpu", "dra.sock"))
	r, err := client.NodeUnprepareResources(n.t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{{Uid: uid, Namespace: "default", Name: name}}})
	if err != nil || r.GetClaims()[uid].GetError() != "" {
		n.t.Fatalf("unprepare %s: %v, %v", name, r, err)
	}
}

// ready waits for /readyz: for 200 if want is empty, else for an answer that says it.
func (n *testNode) ready(want string) {
	n.t.Helper()
	until(n.t, "/readyz says "+want, func() error {
		w := httptest.NewRecorder()
		n.d.node.state.ready(w, nil)
		if want == "" && w.Code == 200 || want != "" && w.Code == 503 && strings.Contains(w.Body.String(), want) {
			return nil
		}
		return fmt.Errorf("%d %s", w.Code, w.Body)
	})
}
