package dracpu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// with is a claim with a configuration.
func with(rc *resourceapi.ResourceClaim, cpuConfig string) *resourceapi.ResourceClaim {
	c := resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClaim}
	c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: cpuset.DriverName}
	c.Opaque.Parameters.Raw = []byte(`{"apiVersion":"v1alpha1","cpuConfig":` + cpuConfig + `}`)
	rc.Status.Allocation.Devices.Config = append(rc.Status.Allocation.Devices.Config, c)
	return rc
}

// A container with CPUs of its own and the shared ones: nobody else runs on its own, and the shared ones follow what
// claims take and give back, also after a restart of the driver.
// CPU check 11.
func TestWithShared(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	p := viewer(t, l, viewAll)
	prepared(t, l, with(on("a", 0, 2, ""), `{"withShared":true}`))
	prepared(t, l, on("b", 0, 1, ""))
	c := ctr("c", "mine", "DRA_CPUSET_a=0-1")
	c.Mounts = usual()
	a, _, err := p.CreateContainer(t.Context(), pod("mine"), c)
	if err != nil || cpusOf(a) != "0-1,3-7" {
		t.Fatalf("it runs on %s, %v", cpusOf(a), err)
	}
	if len(a.GetMounts()) > 0 {
		t.Errorf("it sees only some of its CPUs: %v", a.GetMounts())
	}
	env := after(c, a)
	for _, want := range []string{"DRA_CPUSET=0-1", "DRA_CPU_COUNT=2", "OMP_NUM_THREADS=2", "OMP_PLACES={0},{1}"} {
		if !strings.Contains(strings.Join(env, " ")+" ", want+" ") {
			t.Errorf("its environment lacks %s: %v", want, env)
		}
	}
	if a, _ := create(t, p, "s", "s1"); cpusOf(a) != "3-7" {
		t.Errorf("one without a claim runs on %s", cpusOf(a))
	}
	l.started("c")
	if failed := l.unprepare("b"); len(failed) > 0 {
		t.Fatal(failed)
	}
	if got := l.pending(); len(got) != 1 || got[0].id != "c" || got[0].cpus.String() != "0-7" {
		t.Errorf("when a claim ends the runtime is told %v", got)
	}
	prepared(t, l, on("d", 1, 2, "6-7"))
	c.Env, c.State = env, api.ContainerState_CONTAINER_RUNNING
	u, err := testPlugin(t, d.start(t, "boot", numa(8, ""))).Synchronize(t.Context(), []*api.PodSandbox{pod("mine")}, []*api.Container{c})
	if got := told(u); err != nil || got["c"] != "0-5" {
		t.Errorf("after a restart the runtime is told %v, %v", got, err)
	}
}

// Each pod without a claim is kept to one NUMA node, all its containers to the same, and only as long as the node has a CPU for them.
// CPU check 24.
func TestSharedByNode(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	l.sharedBy = sharedByNode
	p := viewer(t, l, viewAll)
	at := map[string]int{}
	var pods []string
	for i := range 40 {
		name := "p" + strconv.Itoa(i)
		pods = append(pods, name)
		sees := seen(t, p, name, name+"-1", usual())[onlineFile]
		a, _ := create(t, p, name, name+"-2")
		if got := cpusOf(a); got+"\n" != sees || got != "0-3" && got != "4-7" {
			t.Errorf("the containers of %s have %q and %s", name, sees, got)
		}
		l.started(name + "-1")
		l.started(name + "-2")
		at[cpusOf(a)]++
	}
	if at["0-3"] < 8 || at["4-7"] < 8 {
		t.Errorf("the pods are on %v", at)
	}
	prepared(t, l, on("a", 0, 4, ""))
	if got := l.pending(); len(got) != 2*at["0-3"] {
		t.Errorf("%d containers move, and %d pods of two were on the node", len(got), at["0-3"])
	}
	for _, c := range l.containers {
		if c.applied.String() != "4-7" {
			t.Errorf("%s has %s", c.id, c.applied)
		}
	}
	p.tidy()
	for _, name := range pods {
		if got := readFile(t, p.views.sharedFile("pod-"+name)); got != "4-7\n" {
			t.Errorf("%s sees %q", name, got)
		}
	}
	l.ended("p0-1")
	l.ended("p0-2")
	p.tidy()
	if got := readFile(t, p.views.sharedFile("pod-p0")); got != "" {
		t.Errorf("the pod is gone, and its file says %q", got)
	}
}

// Named pods run on the reserved CPUs, and the others on what is left; where somebody has the reserved ones from before, on these too.
// CPU check 24.
func TestReservedPods(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, "0-1"))
	p := viewer(t, l, viewAll)
	var err error
	if p.onReserved, err = parsePods([]string{"kube-system", "apps/tier=node"}, true); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		namespace string
		labels    map[string]string
		want      string
	}{
		"system": {"kube-system", nil, "0-1"}, "daemon": {"apps", map[string]string{"tier": "node"}, "0-1"}, "web": {"apps", nil, "2-7"},
	} {
		c := ctr(name, name)
		c.Mounts = usual()
		a, _, err := p.CreateContainer(t.Context(), &api.PodSandbox{Id: "sandbox-" + name, Uid: name, Name: name, Namespace: x.namespace, Labels: x.labels}, c)
		if err != nil || cpusOf(a) != x.want || readFile(t, a.GetMounts()[0].GetSource()) != x.want+"\n" {
			t.Errorf("%s runs on %s, %v", name, cpusOf(a), err)
		}
		l.started(name)
	}
	// A later run reserves CPUs that a claim has.
	m := numa(8, "2-3")
	prepared(t, l, on("a", 0, 2, "2-3"))
	l.setMachine(m)
	l.pending()
	for id, want := range map[string]string{"system": "0-1,4-7", "web": "0-1,4-7"} {
		if got := l.containers[id].applied.String(); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
	for _, bad := range []string{"", "/", "a/b", "x=y", "a/b="} {
		if _, err := parsePods([]string{bad}, true); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	c := DefaultConfig()
	c.ReservedPods = []string{"kube-system"}
	if _, err := c.exposure(); err == nil || !strings.Contains(err.Error(), "set reservedCPUs") {
		t.Errorf("pods on reserved CPUs, of which there are none: %v", err)
	}
}

// A claim that asks for it gets the CPUs near to its other devices, as the API has them; without the API's answer it is
// refused, and hinders no other.
// CPU check 8.
func TestNear(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1}, NodeName: new("node-1"),
		Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"resource.kubernetes.io/pcieRoot": {StringValue: new("pci0000:40")}}}},
	}}
	kube := fake.NewClientset(slice)
	m := numa(8, "")
	m.Topology.PCIeRoots = []cpuset.Root{{Name: "pci0000:40", CPUs: set("2-3")}}
	l := newDisk(t).start(t, "boot", m)
	s := newState()
	s.set(func(c *conditions) { c.connected, c.synchronized = true, true })
	n := &node{ledger: l, state: s, metric: newMetrics(l), kube: kube}
	near := func(uid string) *resourceapi.ResourceClaim {
		rc := with(on(uid, 0, 1, ""), `{"near":"devices"}`)
		rc.Status.Allocation.Devices.Results = append(rc.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"})
		return rc
	}
	out := n.prepare(t.Context(), []*resourceapi.ResourceClaim{near("a"), on("b", 0, 1, "")})
	if out[0].err != nil || out[1].err != nil || out[0].claim.cpus().String() != "2" || out[1].claim.cpus().String() != "0" {
		t.Fatalf("got %+v and %+v", out[0], out[1])
	}
	kube.PrependReactor("list", "resourceslices", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API is away")
	})
	out = n.prepare(context.Background(), []*resourceapi.ResourceClaim{near("c"), on("d", 0, 1, "")})
	if out[0].err == nil || !strings.Contains(out[0].err.Error(), "the API is away") || out[1].err != nil || out[1].claim.UID != "d" {
		t.Errorf("got %+v and %+v", out[0], out[1])
	}
}

// readFile is what a file says, "" if it isn't there.
func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}
