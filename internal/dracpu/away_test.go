package dracpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2/textlogger"

	slinkyv1beta1 "github.com/slinky-hpc/slinky/api/v1beta1"
)

// Containers that were made while the driver was away are told of, by event, metric and log, if claims had CPUs that these could use;
// the next time the same ones aren't.
// CPU check 22.
func TestMadeWithoutTheDriver(t *testing.T) {
	kube := fake.NewClientset()
	n := newTestNode(t, kube)
	n.kubeletFolder()
	n.startRuntime()
	n.runs("before")
	c := DefaultConfig()
	n.startDriver(c)
	n.has("before", "0-7")
	n.until("nothing is told, as no claim has CPUs", func() error { return n.told(0, "") })
	if _, err := prepareOne(n.d.ledger, on("a", 0, 2, "")); err != nil {
		t.Fatal(err)
	}
	wake(n.d.plugin.kick)
	n.has("before", "2-7")
	n.stopDriver()

	for i := range 7 {
		n.runs(fmt.Sprint("x", i))
	}
	n.runs("driver") // is made without itself every time
	n.running["driver"].Args = []string{"/dracpu", "--v=4"}
	n.startDriver(c)
	for i := range 7 {
		n.has(fmt.Sprint("x", i), "2-7")
	}
	n.until("they are told of", func() error {
		return n.told(7, "made 7 containers without it, which could run on the CPUs of claims (0-1) until now: default/p/c, default/p/c, default/p/c, default/p/c, default/p/c, and 2 more")
	})
	n.stopDriver()
	n.startDriver(c)
	n.has("x0", "2-7")
	n.until("they aren't told of twice", func() error { return n.told(0, "made 7 containers") })
}

// kubeletFolder is there wherever a kubelet runs.
func (n *testNode) kubeletFolder() {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755); err != nil {
		n.t.Fatal(err)
	}
}

// runs is a container that the runtime makes without any plugin.
func (n *testNode) runs(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := ctr(id, "p")
	c.State = api.ContainerState_CONTAINER_RUNNING
	n.running[id], n.cpus[id] = c, ""
}

func (n *testNode) until(what string, f func() error) {
	n.t.Helper()
	until(n.t, what, f)
}

// told: this run of the driver has counted so many, and the node has one event that says so, or none if there is nothing to say.
func (n *testNode) told(count float64, message string) error {
	if !n.d.node.state.get().synchronized {
		return fmt.Errorf("the runtime has not told of its containers")
	}
	var m dto.Metric
	if err := n.d.node.metric.unconfined.Write(&m); err != nil || m.GetCounter().GetValue() != count {
		return fmt.Errorf("counted are %v, %w", m.GetCounter().GetValue(), err)
	}
	list, err := n.kube.CoreV1().Events("default").List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if message == "" && len(list.Items) == 0 {
		return nil
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("there are %d events", len(list.Items))
	}
	e := list.Items[0]
	if e.Reason != slinkyv1beta1.EventContainersUnconfined || !strings.Contains(e.Message, message) || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "node-1" {
		return fmt.Errorf("the event is %s of %s: %s", e.Reason, e.InvolvedObject.Name, e.Message)
	}
	return nil
}

// A runtime that requires the driver makes no container without it.
// CPU check 22.
func TestRuntimeRequiresTheDriver(t *testing.T) {
	n := newTestNode(t, fake.NewClientset())
	n.kubeletFolder()
	n.required = []string{"dra.cpu"}
	n.startRuntime()
	if err := n.run("p", "early"); err == nil || !strings.Contains(err.Error(), "dra.cpu") {
		t.Errorf("without the driver: %v", err)
	}
	if err := n.annotated(tolerateMissing, "true"); err != nil {
		t.Errorf("a pod that may start without the driver: %v", err)
	}
	n.startDriver(DefaultConfig())
	n.until("a container starts with the driver", func() error { return n.run("p", "with") })
	n.has("with", "0-7")
	n.stopDriver()
	n.until("none starts without it", func() error {
		if n.run("p", "late") == nil {
			return fmt.Errorf("one was made")
		}
		return nil
	})
}

// A pod may ask for the driver by itself.
// CPU check 22.
func TestPodRequiresTheDriver(t *testing.T) {
	n := newTestNode(t, fake.NewClientset())
	n.startRuntime()
	if err := n.run("p", "any"); err != nil {
		t.Errorf("a pod that asks for nothing: %v", err)
	}
	if err := n.annotated("required-plugins.noderesource.dev", "[dra.cpu]"); err == nil || !strings.Contains(err.Error(), "dra.cpu") {
		t.Errorf("a pod that asks for the driver: %v", err)
	}
}

// annotated asks for a container of a pod with an annotation.
func (n *testNode) annotated(key, value string) error {
	p := pod("annotated")
	p.Annotations = map[string]string{key: value}
	_, err := n.nri.CreateContainer(n.t.Context(), &adaptation.CreateContainerRequest{Pod: p, Container: ctr("annotated", "annotated")})
	return err
}

// Kubelet that keeps fewer CPUs for the system makes the scheduler count too many.
// CPU check 56.
func TestReservedByKubelet(t *testing.T) {
	for allocatable, want := range map[string]string{"8": "kubelet keeps 0:", "7500m": "kubelet keeps 500m:", "6": "", "4": ""} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(allocatable)}
		l := newDisk(t).start(t, "boot", numa(8, "0-1"))
		d := &driver{Options: Options{Kube: fake.NewClientset(node), NodeName: "node-1"}, ledger: l, plugin: testPlugin(t, l)}
		d.plugin.notices = make(notices, 1)
		d.compareReserved(t.Context())
		got := ""
		if len(d.plugin.notices) > 0 {
			got = (<-d.plugin.notices).message
		}
		if got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("of 8 CPUs %s are for pods: told is %q, want %q", allocatable, got, want)
		}
	}
}

// The log has the published form: what is asked of the driver begins and ends with a line that says so, all between have the same id, and
// no line has a key twice.
func TestLogForm(t *testing.T) {
	var out buffer
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out), textlogger.Verbosity(6)))
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	p.log = log
	s := newState()
	s.set(func(c *conditions) { c.connected, c.synchronized = true, true })
	n := &node{log: log, ledger: l, state: s, metric: newMetrics(l), changed: func() {}}
	broken := on("b", 0, 9, "")
	if _, err := n.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{on("a", 0, 2, ""), broken}); err != nil {
		t.Fatal(err)
	}
	create(t, p, "p", "c1", "DRA_CPUSET_a=0-1")
	if _, _, err := p.CreateContainer(t.Context(), pod("q"), ctr("c2", "q", "DRA_CPUSET_a=0-1")); err == nil {
		t.Error("a thief was let in")
	}
	if _, err := p.Synchronize(t.Context(), []*api.PodSandbox{pod("p")}, []*api.Container{ctr("c1", "p", "DRA_CPUSET_a=0-1"), ctr("x", "p", "DRA_CPUSET_a=0")}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "a"}}); err != nil {
		t.Fatal(err)
	}
	line, pair := regexp.MustCompile(`^[IE][^\]]*\] "([^"]*)"(.*)$`), regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)
	operations := map[string][]string{}
	for text := range strings.Lines(out.String()) {
		m := line.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			t.Fatalf("the line has another form: %s", text)
		}
		seen := map[string]bool{}
		for _, kv := range pair.FindAllStringSubmatch(m[2], -1) {
			if seen[kv[1]] {
				t.Errorf("%s is twice in %s", kv[1], text)
			}
			seen[kv[1]] = true
			if kv[1] == "opID" {
				operations[kv[2]] = append(operations[kv[2]], m[1])
			}
		}
	}
	want := map[string]int{"prepare resource claims": 1, "create container": 2, "synchronize": 1, "unprepare resource claims": 1}
	for id, lines := range operations {
		what, begins := strings.CutPrefix(lines[0], "begin: ")
		if last := lines[len(lines)-1]; !begins || last != "end: "+what || len(lines) < 3 || !regexp.MustCompile(`^"[0-9a-f]{8}"$`).MatchString(id) {
			t.Errorf("operation %s has the lines %q", id, lines)
		}
		want[what]--
	}
	for what, missing := range want {
		if missing != 0 {
			t.Errorf("of %q there are %d too few", what, missing)
		}
	}
	// Without the lines there is no id.
	quiet := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out), textlogger.Verbosity(2)))
	out.Reset()
	log, end := operation(quiet, "nothing")
	log.Info("x")
	end()
	if got := out.String(); strings.Contains(got, "opID") || strings.Count(got, "\n") != 1 {
		t.Errorf("a quiet log says %q", got)
	}
}

// buffer is one that several may write to.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
