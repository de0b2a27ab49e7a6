package robust

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

const (
	namespace = "default"
	// The bridge's partition has four nodes without a slurmd and two with one, which
	// Slurm's own users have in a partition, too.
	partitionOfBridge, partitionOfSlurmd = "all", "real"
	external, withSlurmd                 = 4, 2
)

// world is an API server and a Slurm, with the bridge's programs between them.
type world struct {
	server  *apitest.Server
	kube    kubernetes.Interface
	groups  client.Client
	slurm   *rest.Client
	cluster *slurmtest.Cluster
	// bridges and schedulers are one of each, or two who elect a leader.
	bridges, schedulers []*program
	admission           *program
	faults              faults
}

// newWorld starts all. built says where the bridge's programs are; replicas is how many of each.
func newWorld(t *testing.T, built func() (string, error), replicas int) *world {
	crlog.SetLogger(logr.Discard()) // else it warns that nobody did
	server := apitest.Start(t, "feature-gates=GenericWorkload=true", "runtime-config=scheduling.k8s.io/v1beta1=true")
	server.ApplyKinds(t, []string{"CustomResourceDefinition"}, "cmd", "bridge-scheduler", "testdata", "kinds.yaml")
	cluster := slurmtest.Start(t, slurmtest.Options{Nodes: withSlurmd, Config: []string{
		fmt.Sprintf("PartitionName=%s Nodes=ns_ext,n[1-%d] State=UP", partitionOfBridge, withSlurmd),
	}})
	w := &world{server: server, kube: kubernetes.NewForConfigOrDie(server.Config), slurm: cluster.Client(t, "root"), cluster: cluster}
	var err error
	if w.groups, err = client.New(server.Config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range external {
		w.addNode(t, fmt.Sprintf("e%d", i+1), 4, "8Gi", true)
	}
	for i := range withSlurmd {
		w.addNode(t, fmt.Sprintf("n%d", i+1), 8, "16000Mi", false) // as slurmtest has them
	}
	w.programs(t, built, replicas)
	for _, p := range append(slices.Concat(w.bridges, w.schedulers), w.admission) {
		t.Cleanup(func() { p.end(t) })
		p.start(t)
	}
	return w
}

// programs are the bridge's, with the rights and the configuration that the chart gives them.
func (w *world) programs(t *testing.T, built func() (string, error), replicas int) {
	t.Helper()
	profile := w.server.InstallBridge(t)
	dir := t.TempDir()
	settings := fmt.Sprintf("schedulerName: %s\nslurmRestApi: %s\npartition: %s\nmanagedNodeTaint: NoExecute\n", config.DefaultSchedulerName, w.cluster.URL, partitionOfBridge)
	write(t, filepath.Join(dir, "bridge.yaml"), settings)
	elect := "leaderElect: " + strconv.FormatBool(replicas > 1)
	write(t, filepath.Join(dir, "scheduler.yaml"), profile.With(t, w.server.Kubeconfig(t, "slinky", "slurm-bridge-scheduler"), elect))
	controllers := w.server.Kubeconfig(t, "slinky", "slurm-bridge-controllers")
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	w.admission = w.admit(t, bin, dir)
	for i := range replicas {
		number := strconv.Itoa(i + 1)
		w.bridges = append(w.bridges, &program{
			name: "bridge", log: filepath.Join(dir, "bridge-"+number+".log"), argv: []string{
				filepath.Join(bin, "bridge"), "--config=" + filepath.Join(dir, "bridge.yaml"), "--slurm-jwt-key-file=" + w.cluster.KeyFile,
				"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=" + strconv.FormatBool(replicas > 1), "--leader-elect-namespace=slinky",
			}, env: []string{"KUBECONFIG=" + controllers},
		})
		w.schedulers = append(w.schedulers, &program{
			name: "bridge-scheduler", log: filepath.Join(dir, "scheduler-"+number+".log"), argv: []string{
				filepath.Join(bin, "bridge-scheduler"), "--config=" + filepath.Join(dir, "scheduler.yaml"), "--bridge-config=" + filepath.Join(dir, "bridge.yaml"),
				"--slurm-jwt-key-file=" + w.cluster.KeyFile, "--secure-port=0", "--bridge-namespace=slinky",
			},
		})
	}
}

// build compiles the bridge's programs into a folder; with a warm cache it only links them.
func build(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir, "github.com/slinky-hpc/slinky/cmd/bridge", "github.com/slinky-hpc/slinky/cmd/bridge-scheduler", "github.com/slinky-hpc/slinky/cmd/bridge-admission")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return dir, nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) addNode(t *testing.T, name string, cpus int64, memory string, external bool) {
	t.Helper()
	ctx, nodes := t.Context(), w.kube.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if external {
		node.Labels[v1beta1.LabelExternalNode] = ""
		node.Annotations = map[string]string{v1beta1.AnnotationExternalNodePartitions: "ext"}
	}
	n, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Taints = nil // nobody else here takes away the taint of a node that is not ready
	if n, err = nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods: resource.MustParse("110"),
		},
	}
	n.Status.Capacity = n.Status.Allocatable
	if _, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// program is one of ours as a process.
type program struct {
	name, log string
	argv, env []string
	process   *exec.Cmd
	ended     chan struct{}
}

func (p *program) start(t *testing.T) {
	t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), p.argv[0], p.argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), p.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.process, p.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait() // it ends by our signal
		out.Close()
		close(ended)
	}(p.ended)
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("%s has ended by itself:\n%s", p.name, p.tail())
	default:
	}
	if err := p.process.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *program) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.ended
}

// end kills the program when the test is over.
func (p *program) end(t *testing.T) {
	if p.process != nil {
		_ = p.process.Process.Kill() // it may have ended
		<-p.ended
	}
	if t.Failed() {
		t.Logf("--- %s\n%s", p.name, p.tail())
	}
}

// endsByItself waits until the program has ended, as one does that leads no more.
func (p *program) endsByItself(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatalf("%s goes on without its lease:\n%s", p.name, p.tail())
	}
}

func (p *program) text() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *program) tail() string {
	text := p.text()
	return text[max(0, len(text)-8000):]
}

var errWait = errors.New("not yet")
