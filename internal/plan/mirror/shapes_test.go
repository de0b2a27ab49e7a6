package mirror

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

var update = flag.Bool("update", false, "write the golden files anew")

// registered returns how a machine is registered in an empty Slurm.
func registered(t *testing.T, m *devicetest.Machine) slurm.NodeCreate {
	t.Helper()
	p := Make(Facts{Kube: m.Node, Devices: device.Of(m.Node, m.Slices, device.Known()), Policy: testPolicy})
	if p.Create == nil || p.Delete || p.Update != nil {
		t.Fatalf("the node isn't registered: %+v", p)
	}
	return *p.Create
}

func TestShapes(t *testing.T) {
	machines := devicetest.Machines()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		c := registered(t, machines[name])
		fmt.Fprintf(&b, "%s: %dx%dx%d, %d CPUs without %q, gres %q\n", name, c.Sockets, c.CoresPerSocket, c.ThreadsPerCore, c.CPUs,
			tres.FormatIndexes(c.ReservedCPUs), c.GRES)
		for _, record := range strings.Split(c.GRESConf, "+") {
			if record != "" {
				fmt.Fprintf(&b, "    %s\n", record)
			}
		}
	}
	file := filepath.Join("testdata", "shapes.golden")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Error(d)
	}
}

// asKnown is how Slurm shows a node that was registered, as the test with a real one confirms.
func asKnown(c slurm.NodeCreate) *slurm.Node {
	return &slurm.Node{
		Name: c.Name, Address: c.Address, CPUs: c.CPUs, EffectiveCPUs: c.CPUs - len(c.ReservedCPUs),
		Sockets: c.Sockets, Cores: c.CoresPerSocket, Threads: c.ThreadsPerCore, RealMemory: c.RealMemory,
		Features: c.Features, Partitions: c.Features, GRES: c.GRES, Topology: c.Topology, Extra: c.Extra,
		States: slurm.StatesOf(slurm.NodeIdle, slurm.NodeExternal, slurm.NodeDynamicNorm),
	}
}

// A node that is as it should be is left alone, however often it is looked at, and in
// whatever order its slices and their devices come.
func TestNoFlapping(t *testing.T) {
	for name, m := range devicetest.Machines() {
		t.Run(name, func(t *testing.T) {
			have := asKnown(registered(t, m))
			m.Node.Spec.Taints = append(m.Node.Spec.Taints, ourTaint)
			policy := testPolicy
			policy.Partition = "ext"
			for range 200 {
				slices.Reverse(m.Slices)
				for _, s := range m.Slices {
					slices.Reverse(s.Spec.Devices)
				}
				p := Make(Facts{Kube: m.Node, Slurm: have, Devices: device.Of(m.Node, m.Slices, device.Known()), Policy: policy})
				if d := cmp.Diff(Plan{}, p); d != "" {
					t.Fatal(d)
				}
			}
		})
	}
}

// A driver that is updated takes its slices away for a while, or writes them one by one.
func TestDriverAway(t *testing.T) {
	m := devicetest.Machines()["big"]
	have := asKnown(registered(t, m))
	m.Node.Spec.Taints = append(m.Node.Spec.Taints, ourTaint)
	plan := func(change func(*slurm.Node), published ...int) Plan {
		n := *have
		change(&n)
		var some []*resourcev1.ResourceSlice
		for _, i := range published {
			some = append(some, m.Slices[i])
		}
		return Make(Facts{Kube: m.Node, Slurm: &n, Devices: device.Of(m.Node, some, device.Known()), Policy: testPolicy, Now: time.Unix(10000, 0)})
	}
	none := func(*slurm.Node) {}
	away := func(since time.Time, words ...string) func(*slurm.Node) {
		return func(n *slurm.Node) {
			n.States = slurm.StatesOf(append(words, slurm.NodeExternal, slurm.NodeDrain)...)
			n.Reason, n.ReasonTime = "slurm-bridge: its driver dra.cpu publishes no devices", since
		}
	}
	drain := Plan{Update: &slurm.NodeUpdate{State: "DRAIN", Reason: "slurm-bridge: its driver dra.cpu publishes no devices"}, Again: 10 * time.Minute}
	for name, c := range map[string]struct {
		got, want Plan
	}{
		"some slices":             {plan(none, 0, 2), Plan{}},
		"no slices":               {plan(none), drain},
		"no slices, told":         {plan(away(time.Unix(9700, 0), slurm.NodeIdle)), Plan{Again: 5 * time.Minute}},
		"no slices, long, busy":   {plan(away(time.Unix(9000, 0), slurm.NodeMixed)), Plan{Again: 10 * time.Minute}},
		"some slices, told":       {plan(away(time.Unix(9700, 0), slurm.NodeIdle), 1), Plan{Update: &slurm.NodeUpdate{State: "UNDRAIN"}}},
		"slices again":            {plan(away(time.Unix(9700, 0), slurm.NodeIdle), 0, 1, 2), Plan{Update: &slurm.NodeUpdate{State: "UNDRAIN"}}},
		"as it should be, slices": {plan(none, 0, 1, 2), Plan{}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	without := func(classes ...string) Plan {
		n := *have
		return Make(Facts{Kube: m.Node, Slurm: &n, Devices: device.Of(m.Node, nil, device.Known()), Uninstalled: classes, Policy: testPolicy, Now: time.Unix(10000, 0)})
	}
	if p := without("other.example"); p.Delete {
		t.Errorf("another driver's class is gone: %+v", p)
	}
	if p := without(device.DriverCPU); !p.Delete || p.Create == nil {
		t.Errorf("an idle node whose driver was uninstalled: %+v", p)
	}
	long := plan(away(time.Unix(9000, 0), slurm.NodeIdle))
	if !long.Delete || long.Create == nil || long.Create.Sockets != 1 || long.Create.CPUs != 384 {
		t.Errorf("an idle node whose driver is gone for long: %+v", long)
	}
}

// Removal waits for jobs, and for jobs that name the node.
func TestRemoval(t *testing.T) {
	gone := Facts{Slurm: inSlurm(), Policy: testPolicy}
	if p := Make(gone); !p.Delete {
		t.Errorf("an idle node stays: %+v", p)
	}
	gone.NamedBy = 7
	want := &slurm.NodeUpdate{State: "DRAIN", Reason: "slurm-bridge: it is no longer an external node; it is removed once job 7, which names it, has ended"}
	if p := Make(gone); p.Delete || !cmp.Equal(p.Update, want) {
		t.Errorf("a node that a job names: %+v", p)
	}
}

func TestSink(t *testing.T) {
	policy := testPolicy
	policy.SinkAddress, policy.SinkPort = "10.9.9.9", 6818
	p := Make(Facts{Kube: kube(), Policy: policy})
	if p.Create == nil || p.Create.Address != "10.9.9.9" || p.Create.Port != 6818 {
		t.Fatalf("registered as %+v", p.Create)
	}
	have := asKnown(*p.Create)
	if p := Make(Facts{Kube: kube(), Slurm: have, Policy: policy}); p.Changes() {
		t.Errorf("changes a node that is as it should be: %+v", p)
	}
	if p := Make(Facts{Kube: kube(), Slurm: have, Policy: testPolicy}); !p.Delete || p.Anew != "its cores or devices changed" {
		t.Errorf("without the sink: %+v", p)
	}
}

// What the published bridge registered is adopted, and gets its shape when it is idle, without a drain.
func TestAdoption(t *testing.T) {
	m := devicetest.Machines()["smt"]
	m.Node.Spec.Taints = append(m.Node.Spec.Taints, ourTaint)
	have := asKnown(registered(t, m))
	have.Sockets, have.Cores, have.Extra = 1, 32, ""
	f := Facts{Kube: m.Node, Slurm: have, Devices: device.Of(m.Node, m.Slices, device.Known()), Policy: testPolicy}
	if p := Make(f); !p.Delete || p.Create == nil {
		t.Errorf("idle: %+v", p)
	}
	have.States = slurm.StatesOf(slurm.NodeMixed, slurm.NodeExternal)
	if d := cmp.Diff(Plan{}, Make(f)); d != "" {
		t.Errorf("busy: %s", d)
	}
}

// The taint ends pods, but never the bridge itself on a node that nobody gave to it.
func TestOwnPods(t *testing.T) {
	slurmd := inSlurm()
	slurmd.States = slurm.StatesOf(slurm.NodeIdle)
	worker := kube()
	worker.Labels, worker.Spec.Taints = nil, nil
	f := Facts{Kube: worker, Slurm: slurmd, OwnPods: []string{"slinky/bridge-0"}, Policy: testPolicy}
	if p := Make(f); p.SetTaints || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "slinky/bridge-0") {
		t.Errorf("%+v", p)
	}
	f.TaintEffect = corev1.TaintEffectNoSchedule
	if p := Make(f); !p.SetTaints || len(p.Notes) != 0 {
		t.Errorf("NoSchedule: %+v", p)
	}
	for shared, want := range map[Shared]bool{SharedAll: true, SharedNone: false, SharedInPartition: false} {
		f := Facts{Kube: worker, Slurm: slurmd, Policy: testPolicy}
		f.Shared, f.Partition = shared, "other"
		if p := Make(f); p.SetTaints != want {
			t.Errorf("%s: %+v", shared, p)
		}
	}
}
