package dracpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// apiServer is a real API server with a node and the driver's own rights.
func apiServer(t *testing.T) (admin, driver kubernetes.Interface) {
	t.Helper()
	s := apitest.Start(t)
	s.Apply(t, "config", "rbac", "dra-cpu", "role.yaml")
	s.Bind(t, "kube-system", "dra-driver-cpu", "dra-driver-cpu")
	admin = kubernetes.NewForConfigOrDie(s.Config)
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return admin, kubernetes.NewForConfigOrDie(s.As("kube-system", "dra-driver-cpu"))
}

// allocated makes a claim and writes its allocation, as a scheduler does.
func allocated(t *testing.T, kube kubernetes.Interface, name string, node, n int, exact string) string {
	t.Helper()
	rc := on("", node, n, exact)
	rc.Name, rc.UID = name, ""
	r := &rc.Status.Allocation.Devices.Results[0]
	share := "7a3f0e0a-1111-4222-8333-" + fmt.Sprintf("%012x", len(name)+n)
	r.ShareID = new(types.UID(share))
	status := rc.Status
	rc.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "cpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "dra.cpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{cpuset.CapacityCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}},
	}}}
	made, err := kube.ResourceV1().ResourceClaims("default").Create(t.Context(), rc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status = status
	if made, err = kube.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return string(made.UID)
}

// The whole driver with its own rights: between a real API server, the runtime's side of
// NRI, and kubelet's calls. It and the runtime end and come back in between.
// CPU checks 15, 17, 19, 23, 27, 28, 34, 35, 53, 54, 59 and 64.
func TestDriverOnANode(t *testing.T) {
	admin, own := apiServer(t)
	n := newTestNode(t, own)
	if err := os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Without the runtime kubelet must not find the driver.
	n.startDriver(DefaultConfig())
	n.ready("not connected by NRI")
	if _, err := os.Stat(filepath.Join(n.dir, "plugins_registry", "dra.cpu-reg.sock")); !os.IsNotExist(err) {
		t.Errorf("the driver offers itself before it knows what runs: %v", err)
	}
	n.running["old"] = ctr("old", "o")
	n.running["old"].State = api.ContainerState_CONTAINER_RUNNING
	n.startRuntime()
	n.has("old", "0-7")
	n.ready("kubelet has not registered")
	n.register()
	n.ready("")
	slices := published(t, admin, 2)
	if got := slices[0].Attributes["dra.cpu/cpuIDs"].StringValue; got == nil || *got != "0-3" {
		t.Errorf("the first device says %v", got)
	}

	uid := allocated(t, admin, "exact", 1, 2, "5,7")
	ids, err := n.prepare(uid, "exact")
	if err != nil || len(ids) != 1 || ids[0] != "dra.k8s.io/cpu=claim-"+uid {
		t.Fatalf("got %v, %v", ids, err)
	}
	n.has("old", "0-4,6")
	variable := "DRA_CPUSET_" + uid + "=5,7"
	if err := n.run("p", "exclusive", variable); err != nil {
		t.Fatal(err)
	}
	n.has("exclusive", "5,7")
	overlap := allocated(t, admin, "overlap", 1, 2, "6-7")
	if _, err := n.prepare(overlap, "overlap"); err == nil || !strings.Contains(err.Error(), "CPUs 7 already belong to claim default/exact") {
		t.Errorf("two claims of one CPU: %v", err)
	}

	// The driver ends; one without a claim starts with all CPUs; the next driver sets it right.
	n.stopDriver()
	n.cpus["exclusive"] = ""
	n.running["between"] = ctr("between", "b")
	n.running["between"].State = api.ContainerState_CONTAINER_RUNNING
	n.startDriver(DefaultConfig())
	n.register()
	n.ready("")
	n.has("exclusive", "5,7")
	n.has("between", "0-4,6")
	if again, err := n.prepare(uid, "exact"); err != nil || len(again) != 1 {
		t.Errorf("prepared again: %v, %v", again, err)
	}

	// The runtime ends: nothing is prepared until it is back.
	n.stopRuntime()
	n.ready("not connected by NRI")
	other := allocated(t, admin, "other", 0, 1, "")
	if _, err := n.prepare(other, "other"); err == nil || !strings.Contains(err.Error(), "not connected by NRI") {
		t.Errorf("without the runtime: %v", err)
	}
	n.startRuntime()
	n.ready("")
	n.has("exclusive", "5,7")

	n.stop("exclusive")
	n.unprepare(uid, "exact")
	n.has("old", "0-7")
	n.has("between", "0-7")
	n.forgotten(admin, other)
	n.rival(admin)
}

// rival: kubelet's static policy is switched on while the driver runs. It moves nobody, the driver says so, and offers nothing any more.
func (n *testNode) rival(admin kubernetes.Interface) {
	n.t.Helper()
	n.mu.Lock()
	a, c, kept := n.nri, n.running["old"], n.cpus["old"]
	n.mu.Unlock()
	r, err := a.UpdateContainer(n.t.Context(), &adaptation.UpdateContainerRequest{Pod: pod("o"), Container: c,
		LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0"}}})
	if err != nil {
		n.t.Fatal(err)
	}
	if n.carryOut(r.GetUpdate()); n.cpus["old"] != kept {
		n.t.Errorf("kubelet moves a container from %s to %s", kept, n.cpus["old"])
	}
	n.ready("cpuManagerPolicy to none")
	published(n.t, admin, 0)
}

// Kubelet's state says that its policy is static: the driver starts, says so, and offers nothing.
// CPU checks 34 and 49.
func TestStaticPolicy(t *testing.T) {
	admin, own := apiServer(t)
	n := newTestNode(t, own)
	write(t, filepath.Join(n.dir, "cpu_manager_state"), `{"policyName":"static","defaultCpuSet":"0-7","entries":{"pod":{"c":"1-2"}},"checksum":1}`)
	if err := os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.startRuntime()
	n.startDriver(DefaultConfig())
	n.register()
	n.ready("cpuManagerPolicy is static")
	until(t, "the node's slice has no device", func() error {
		list, err := admin.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.driver=dra.cpu"})
		if err == nil && (len(list.Items) != 1 || len(list.Items[0].Spec.Devices) > 0) {
			err = fmt.Errorf("there are %v", list.Items)
		}
		return err
	})
}

// What kubelet writes is understood; what can't be read is said, and isn't taken for a policy.
// CPU check 49.
func TestKubeletState(t *testing.T) {
	for text, want := range map[string]string{
		`{"policyName":"none","defaultCpuSet":"","checksum":1}`: "none", `{"policyName":"static","defaultCpuSet":"0","entries":{"p":{}},"checksum":1}`: "static",
		`{"policyName":"none","data":"{}","dataChecksum":3}`: "none", `{`: "!", `[]`: "!", ``: "!",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "cpu_manager_state"), text)
		got, err := readKubelet(dir)
		if (err != nil) != (want == "!") || err == nil && got.CPUManagerPolicy != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	if got, err := readKubelet(t.TempDir()); err != nil || got.CPUManagerPolicy != "" {
		t.Errorf("without a file: got %v, %v", got, err)
	}
}

// forgotten: a claim that is deleted while kubelet doesn't look is free soon; one that exists stays.
func (n *testNode) forgotten(admin kubernetes.Interface, other string) {
	n.t.Helper()
	if _, err := n.prepare(other, "other"); err != nil {
		n.t.Fatal(err)
	}
	gone := allocated(n.t, admin, "gone", 0, 2, "")
	if _, err := n.prepare(gone, "gone"); err != nil {
		n.t.Fatal(err)
	}
	n.has("old", "3-7")
	if err := admin.ResourceV1().ResourceClaims("default").Delete(n.t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		n.t.Fatal(err)
	}
	n.has("old", "1-7")
	// Kubelet asks once more, from before the end.
	if _, err := n.prepare(gone, "gone"); err == nil {
		n.t.Error("a claim that is gone is prepared again")
	}
	n.has("old", "1-7")
}

// published waits for the driver's devices.
func published(t *testing.T, kube kubernetes.Interface, want int) []resourceapi.Device {
	t.Helper()
	var devices []resourceapi.Device
	until(t, fmt.Sprint(want, " devices are published"), func() error {
		list, err := kube.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.driver=dra.cpu"})
		if err != nil {
			return err
		}
		devices = nil
		for _, s := range list.Items {
			devices = append(devices, s.Spec.Devices...)
		}
		if len(devices) != want {
			return fmt.Errorf("there are %d", len(devices))
		}
		return nil
	})
	return devices
}

// Slices of machines of many sizes are taken by the API server, with no field dropped.
// CPU checks 38, 50 and 56.
func TestSlicesAreTaken(t *testing.T) {
	admin, _ := apiServer(t)
	m := numaMemory(4)
	for i, mapped := range []bool{false, true} {
		m.Exposure.NodeAllocatable = mapped
		takenWhole(t, admin, fmt.Sprint("memory-", i), cpuset.Slices(m.Devices, m.Exposure)[0])
	}
	for _, n := range []int{2, 4, 6, 384} {
		e := cpuset.Exposure{Mode: cpuset.Grouped, GroupBy: cpuset.ByMachine, WholeCores: true}
		top := numa(n, "").Topology
		for i := range top.CPUs {
			top.CPUs[i].Core = i / 2 * 2
		}
		takenWhole(t, admin, fmt.Sprint("cores-", n), cpuset.Slices(cpuset.Devices(top, e), e)[0])
	}
	for _, n := range []int{1, 2, 64, 65, 127, 128, 129, 256, 512} {
		for _, e := range []cpuset.Exposure{
			{Mode: cpuset.Individual}, {Mode: cpuset.Grouped, GroupBy: cpuset.ByNUMANode}, {Mode: cpuset.Grouped, GroupBy: cpuset.BySocket},
			{Mode: cpuset.Grouped, GroupBy: cpuset.ByL3Cache}, {Mode: cpuset.Grouped, GroupBy: cpuset.ByMachine},
		} {
			lists := cpuset.Slices(cpuset.Devices(numa(n, "").Topology, e), e)
			for i, devices := range lists {
				takenWhole(t, admin, fmt.Sprintf("%s-%s-%d-%d", e.Mode, e.GroupBy, n, i), devices)
			}
		}
	}
}

func takenWhole(t *testing.T, admin kubernetes.Interface, name string, devices []resourceapi.Device) {
	t.Helper()
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: "test.example.com", NodeName: new("node-1"), Devices: devices,
		Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}
	got, err := admin.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, d := range got.Spec.Devices {
		if i >= len(devices) || len(d.Capacity) != len(devices[i].Capacity) || len(d.Attributes) != len(devices[i].Attributes) {
			t.Errorf("%s: the server keeps %v", name, d)
		}
	}
}
