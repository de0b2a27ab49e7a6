package report

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr/testr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

func files(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// secret must be in no report.
const secret = "hunter2"

func sys() fstest.MapFS {
	sys := fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0-3\n")}}
	for _, id := range []string{"0", "1", "2", "3"} {
		sys["devices/system/cpu/cpu"+id+"/topology/core_id"] = &fstest.MapFile{Data: []byte(id)}
		sys["devices/system/cpu/cpu"+id+"/topology/physical_package_id"] = &fstest.MapFile{Data: []byte("0")}
	}
	return sys
}

// A driver runs on a node that has seen much: the report tells of its claims, of the
// files and of the API, and of nothing that belongs to others.
func TestGather(t *testing.T) {
	dir := t.TempDir()
	files(t, dir, map[string]string{
		"cdi/dra.k8s.io-cpu_claim-a.json":      `{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{"name":"claim-a","containerEdits":{"env":["DRA_CPUSET_a=1-2"]}}]}`,
		"cdi/dra.k8s.io-cpu_claim-broken.json": `{"devices":[{"name":"claim-broken","containerEdits":{"env":["PASSWORD=` + secret + `"]}}]}`,
		"cdi/vendor.com-gpu.json":              `{"devices":[{"name":"x","containerEdits":{"env":["TOKEN=` + secret + `"]}}]}`,
		"cpu_manager_state":                    `{"policyName":"none","defaultCpuSet":"","checksum":1}`,
	})
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "near", UID: "a"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	d := &claim.Status.Allocation.Devices
	d.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "cpu", Driver: "dra.cpu", Pool: "n", Device: "cpudevnuma000"}, {Request: "gpu", Driver: "vendor.com", Device: "gpu-0"}}
	for driver, parameters := range map[string]string{"vendor.com": `{"licence":"` + secret + `"}`, "dra.cpu": `{"apiVersion":"v1alpha1"}`} {
		d.Config = append(d.Config, resourceapi.DeviceAllocationConfiguration{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}})
	}
	kube := fake.NewClientset(claim, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}, Spec: resourceapi.ResourceSliceSpec{Driver: "dra.cpu"}})
	r := Gather(t.Context(), drive(t, dir, Sources{Config: dracpu.DefaultConfig(), KubeletRoot: dir, CDIDir: filepath.Join(dir, "cdi"), Sys: sys(),
		Proc: fstest.MapFS{}, Cgroups: fstest.MapFS{"cgroup.controllers": {}}, Kube: kube, Now: time.Unix(1e9, 0)}))

	switch {
	case r.Driver == nil:
		t.Fatalf("the driver doesn't answer: %v", r.Missing)
	case r.Driver.Node != "n" || len(r.Driver.Claims) != 1 || r.Driver.Claimed.String() != "1-2" || r.Driver.Shared.String() != "0,3" || len(r.Driver.Problems) == 0:
		t.Errorf("the driver knows %+v", r.Driver)
	case len(r.OnDisk.Checkpoint) != 1 || len(r.OnDisk.CDIFiles) != 1 || r.OnDisk.Kubelet.CPUManagerPolicy != "none":
		t.Errorf("on disk is %+v", r.OnDisk)
	case len(r.ResourceSlices) != 1 || r.CPUDetails.Topology.NumCPUs != 4:
		t.Errorf("got %+v", r)
	}
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"be used", "claim-broken", "cpuManagerPolicy: none"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	// Only a CDI file tells of this claim, so the API's answer is asked for by name here.
	r.claim(t.Context(), Sources{Kube: kube}, "team", "near")
	if c := r.ResourceClaims; len(c) != 1 || len(c[0].Results) != 1 || len(c[0].Config) != 1 {
		t.Errorf("the claim is %+v", c)
	}
	r.claim(t.Context(), Sources{Kube: kube}, "team", "gone")
	if text, err = r.Text(); err != nil || strings.Contains(string(text), secret) || !strings.Contains(string(text), "claim team/gone: ") {
		t.Errorf("%v, the report tells a secret, or not of a claim that is gone:\n%s", err, text)
	}
}

// drive runs a driver on the sources until the test ends, and waits for its socket.
func drive(t *testing.T, dir string, s Sources) Sources {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	recent := &dracpu.Recent{}
	go func() {
		done <- dracpu.Run(ctx, dracpu.Options{Config: s.Config, NodeName: "n", Kube: s.Kube, Log: recent.Keep(testr.New(t)), Recent: recent, Sys: s.Sys, Proc: s.Proc, Cgroups: s.Cgroups,
			KubeletRoot: dir, CDIDir: s.CDIDir, NRISocket: filepath.Join(dir, "none.sock"), Address: "127.0.0.1:0", Every: time.Hour})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(time.Minute); ; <-again.C {
		conn, err := net.Dial("unix", filepath.Join(dir, "plugins", "dra.cpu", "introspect.sock"))
		if err == nil {
			_ = conn.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// What the kernel says is held against what the driver wants; offline CPUs are nobody's fault.
func TestWrong(t *testing.T) {
	all, err := cpuset.Parse("0-3")
	if err != nil {
		t.Fatal(err)
	}
	state := func(id string, started bool, want ...int) dracpu.ContainerState {
		return dracpu.ContainerState{ID: id, Name: "ns/pod/" + id, Started: started, Want: cpuset.Of(want...)}
	}
	r := Report{Driver: &dracpu.Snapshot{Online: all, Containers: []dracpu.ContainerState{
		state("right", true, 1), state("drifted", true, 1), state("offline", true, 2, 9), state("starting", false, 1), state("gone", true, 1),
	}}}
	tree := fstest.MapFS{"cgroup.controllers": {}}
	for id, cpus := range map[string]string{"right": "1", "drifted": "0-3", "offline": "2", "starting": "0-3"} {
		tree["kubepods.slice/cri-containerd-"+id+".scope/cpuset.cpus.effective"] = &fstest.MapFile{Data: []byte(cpus + "\n")}
	}
	r.cgroups(tree)
	if len(r.Wrong) != 1 || r.Wrong[0] != "ns/pod/drifted runs on CPUs 0-3 and should on 1" || len(r.Cgroups) != 4 {
		t.Errorf("got %q of %v", r.Wrong, r.Cgroups)
	}
	none := Report{Driver: r.Driver}
	none.cgroups(fstest.MapFS{"cgroup.controllers": {}})
	if len(none.Missing) != 1 || !strings.Contains(none.Missing[0], "--cgroup-root") {
		t.Errorf("got %q", none.Missing)
	}
	r = Gather(t.Context(), Sources{KubeletRoot: t.TempDir(), CDIDir: t.TempDir(), Sys: sys(), Proc: tree, Cgroups: tree, NoKube: errors.New("no token")})
	if text := strings.Join(r.Missing, "\n"); !strings.Contains(text, "the API: no token") || !strings.Contains(text, "ask the running driver") {
		t.Errorf("got %q", r.Missing)
	}
}
