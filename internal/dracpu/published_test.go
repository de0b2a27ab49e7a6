package dracpu

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr/testr"
	"k8s.io/client-go/kubernetes/fake"
)

// The published driver takes a node back: it reads in a claim's CDI file what it writes itself (CPU checks 12 and 48).
func TestCDIFileAsPublished(t *testing.T) {
	d := newDisk(t)
	prepared(t, d.start(t, "boot", numa(8, "")), on("f3a1c2d4-0000-4000-8000-000000000001", 0, 3, ""))
	got, err := os.ReadFile(filepath.Join(d.cdi, "dra.k8s.io-cpu_claim-f3a1c2d4-0000-4000-8000-000000000001.json"))
	const want = `{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{"name":"claim-f3a1c2d4-0000-4000-8000-000000000001",` +
		`"containerEdits":{"env":["DRA_CPUSET_f3a1c2d4-0000-4000-8000-000000000001=0-2"]}}],"containerEdits":{}}`
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

// One container with several claims has the CPUs of all of them, and is told their sum: how more than 32 single CPUs reach
// a container (CPU check 51).
func TestSeveralClaims(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 0, 2, ""))
	prepared(t, l, on("b", 1, 1, ""))
	a, _ := create(t, p, "p", "c", "DRA_CPUSET_a=0-1", "DRA_CPUSET_b=4")
	env := map[string]string{}
	for _, e := range a.GetEnv() {
		env[e.GetKey()] = e.GetValue()
	}
	if cpusOf(a) != "0-1,4" || env["DRA_CPUSET"] != "0-1,4" || env["OMP_NUM_THREADS"] != "3" || env["OMP_PLACES"] != "{0},{1},{4}" {
		t.Errorf("it runs on %s, with %v", cpusOf(a), env)
	}
}

// A restartable init container and the main one each have a request of the claim, at the same time (CPU check 62).
func TestSidecarBesideMain(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	rc := on("a", 0, 2, "")
	second := on("x", 1, 1, "").Status.Allocation.Devices.Results[0]
	second.Request = "side"
	rc.Status.Allocation.Devices.Results = append(rc.Status.Allocation.Devices.Results, second)
	prepared(t, l, rc)
	side, main := ctr("s", "p", "DRA_CPUSET_a_1=4"), ctr("m", "p", "DRA_CPUSET_a_0=0-1")
	side.Name = "sidecar"
	a, _, err := p.CreateContainer(t.Context(), pod("p"), side)
	if err != nil || cpusOf(a) != "4" {
		t.Fatalf("the sidecar has %s, %v", cpusOf(a), err)
	}
	if a, _, err = p.CreateContainer(t.Context(), pod("p"), main); err != nil || cpusOf(a) != "0-1" {
		t.Errorf("the main container has %s, %v", cpusOf(a), err)
	}
}

// A checkpoint of a driver that knew no boot is kept, and so is one with a field of a later version (CPU check 65).
func TestCheckpointWithoutBoot(t *testing.T) {
	d := newDisk(t)
	data := []byte(`{"claims":[{"uid":"a","grants":[{"request":"cpu","cpus":"0-1"}],"later":{"x":1}}],"later":true}`)
	write(t, filepath.Join(d.data, "checkpoint.json"), `{"version":1,"checksum":"`+checksum(data)+`","data":`+string(data)+`}`)
	if l := d.start(t, "boot", numa(8, "")); l.all()["a"] != "0-1" {
		t.Errorf("got %v", l.all())
	}
}

// A node that can offer nothing, and a port that somebody else has, are told at once (CPU checks 29 and 56).
func TestStartRefused(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	sys := fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0-1\n")}}
	all, absent := DefaultConfig(), DefaultConfig()
	all.ReservedCPUs, absent.ReservedCPUs = "0-1", "0,7"
	for want, x := range map[string]struct {
		config  Config
		address string
	}{
		"there is no CPU to offer: online are 0-1, reserved 0-1": {all, "127.0.0.1:0"},
		"choose another port by --bind-address":                  {absent, taken.Addr().String()},
	} {
		dir := t.TempDir()
		err := Run(t.Context(), Options{Config: x.config, NodeName: "n", Kube: fake.NewClientset(), Log: testr.New(t), Sys: sys, Cgroups: fstest.MapFS{}, Proc: fstest.MapFS{},
			KubeletRoot: dir, CDIDir: filepath.Join(dir, "cdi"), NRISocket: filepath.Join(dir, "nri.sock"), Address: x.address})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A driver that doesn't answer the runtime in time: the container isn't made without it, and is made when it answers again (CPU
// checks 22 and 59).
func TestSlowDriver(t *testing.T) {
	n := newTestNode(t, fake.NewClientset())
	if err := os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.startRuntime()
	n.startDriver(DefaultConfig())
	n.register()
	n.ready("")
	n.d.ledger.mu.Lock()
	err := n.run("p", "late")
	n.d.ledger.mu.Unlock()
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("the container starts without the driver's answer: %v", err)
	}
	until(t, "the driver is connected again", func() error { return n.run("p", "late") })
	n.has("late", "0-7")
}

// What takes a part of a millisecond can be told from what takes five (CPU check 47).
func TestBuckets(t *testing.T) {
	families, err := newMetrics(newDisk(t).start(t, "boot", numa(8, ""))).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	below := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if b.GetUpperBound() < 0.005 {
					below[f.GetName()]++
				}
			}
		}
	}
	for _, name := range []string{"dra_cpu_prepare_claim_duration_seconds", "dra_cpu_nri_hook_duration_seconds"} {
		if below[name] < 4 {
			t.Errorf("%s has %d buckets below 5 ms", name, below[name])
		}
	}
}
