package charts

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

const cpuChart = "dra-driver-cpu"

// The published chart's arguments and mounts; one value moves kubelet's folder in all places.
// CPU check 54.
func TestCPUDriver(t *testing.T) {
	all := render(t, cpuChart, "")
	set := find(t, all, "DaemonSet", cpuChart)
	same(t, "arguments", []any{"/dracpu", "--v=4", "--bind-address=:8080", "--expose-pcie-roots=false"}, containers(set)[0]["args"])
	find(t, all, "DeviceClass", "dra.cpu")
	roots := find(t, render(t, cpuChart, "args: {exposePCIeRoots: true}"), "DaemonSet", cpuChart)
	same(t, "arguments", []any{"/dracpu", "--v=4", "--bind-address=:8080", "--expose-pcie-roots=true"}, containers(roots)[0]["args"])

	moved := find(t, render(t, cpuChart, "kubeletRootDir: /var/lib/k0s/kubelet/"), "DaemonSet", cpuChart)
	data, err := moved.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, "/var/lib/k0s/kubelet/plugins"); n != 4 || strings.Contains(text, "/var/lib/kubelet") ||
		!strings.Contains(text, `"--kubelet-root-dir=/var/lib/k0s/kubelet"`) {
		t.Errorf("kubelet's folder is in %d places, want 4:\n%s", n, text)
	}
}

// Devices of memory have a class of their own; without them the class is the published one.
func TestCPUDriverMemoryClass(t *testing.T) {
	expression := func(values, name string) any {
		class := find(t, render(t, cpuChart, values), "DeviceClass", name)
		return at(t, class, "spec", "selectors").([]any)[0].(map[string]any)["cel"].(map[string]any)["expression"]
	}
	const on = "driverConfig: {memoryDevices: numanode, reservedMemory: 2Gi}"
	same(t, "class", `device.driver == "dra.cpu"`, expression("", "dra.cpu"))
	same(t, "class", `device.driver == "dra.cpu" && !has(device.attributes["dra.cpu"].kind)`, expression(on, "dra.cpu"))
	same(t, "class", `device.driver == "dra.cpu" && has(device.attributes["dra.cpu"].kind) && device.attributes["dra.cpu"].kind == "memory"`,
		expression(on, "memory.dra.cpu"))
}

// The deprecated values overrule the configuration, and a change of it starts the pods anew.
func TestCPUDriverConfiguration(t *testing.T) {
	values := "driverConfig: {reservedCPUs: '0', groupBy: socket}\nargs: {reservedCPUs: '0-1'}"
	all := render(t, cpuChart, values)
	config := at(t, find(t, all, "ConfigMap", cpuChart+"-config"), "data", "config.yaml")
	same(t, "configuration", "groupBy: socket\nreservedCPUs: 0-1", strings.TrimSpace(config.(string)))
	sum := func(values string) any {
		set := find(t, render(t, cpuChart, values), "DaemonSet", cpuChart)
		return at(t, set, "spec", "template", "metadata", "annotations", "checksum/config")
	}
	if sum(values) == sum("") {
		t.Error("another configuration has the same checksum")
	}
}

// CPU check 58.
func TestCPUDriverRefused(t *testing.T) {
	for values, want := range map[string]string{
		"driverConfig: {reservedCpus: '0'}":  "reservedCpus",
		"driverConfig: {reservedCPUs: 0}":    "reservedCPUs",
		"reservedCPUs: '0'":                  "reservedCPUs",
		"kubeletRootDir: kubelet":            "kubeletRootDir",
		"driverConfig: {memoryDevices: all}": "memoryDevices",
		"args: {exposePCIeRoots: both}":      "exposePCIeRoots",
		"args: {groupBy: rack}":              "groupBy",
	} {
		if out, err := template(t, cpuChart, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s:\n%s", values, err, want, out)
		}
	}
}

// The driver of one node can't write what other nodes have.
// CPU check 45.
func TestCPUDriverOwnNode(t *testing.T) {
	s := apitest.Start(t)
	helm(t)
	s.Chart(t, "slinky", cpuChart)
	config := s.As("slinky", cpuChart)
	config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"node-1"}}
	driver := kubernetes.NewForConfigOrDie(config)
	slice := func(node, driver string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	}
	create := func(s *resourceapi.ResourceSlice) error {
		_, err := driver.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{})
		return err
	}
	// A policy counts a moment after it was made.
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(time.Minute); ; <-again.C {
		err := create(slice("node-2", "dra.cpu"))
		if err != nil && strings.Contains(err.Error(), "of its own node") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the driver of node-1 writes a slice of node-2: %v", err)
		}
	}
	if err := create(slice("node-1", "gpu.example.com")); err == nil {
		t.Error("the driver writes slices of another driver")
	}
	if err := create(slice("node-1", "dra.cpu")); err != nil {
		t.Errorf("the driver can't write its own node's: %v", err)
	}
	if _, err := driver.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the driver may read all pods")
	}
	if _, err := driver.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("the driver can't read its node: %v", err)
	}
}

// Nodes of two kinds have drivers of two releases, each with its own configuration; what the cluster has one of is one's.
// CPU check 46.
func TestCPUDriverSecondRelease(t *testing.T) {
	const second = "fullnameOverride: dra-driver-cpu-fat\ndeviceClass: {create: false}\nnodeSelector: {kind: fat}\ndriverConfig: {reservedCPUs: '0-3'}"
	names := map[string]string{}
	for release, values := range map[string]string{"first": "nodeSelector: {kind: thin}", "second": second} {
		for _, o := range render(t, cpuChart, values) {
			id := o.GetKind() + " " + o.GetName()
			if other := names[id]; other != "" {
				t.Errorf("%s is both releases'", id)
			}
			names[id] = release
		}
	}
	if names["DeviceClass dra.cpu"] != "first" || names["DaemonSet dra-driver-cpu-fat"] != "second" {
		t.Errorf("got %v", names)
	}
}
