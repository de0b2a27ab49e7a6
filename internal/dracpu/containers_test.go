package dracpu

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr/testr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

func testPlugin(t *testing.T, l *ledger) *plugin {
	return &plugin{log: testr.New(t), ledger: l, state: newState(), metric: newMetrics(l), threads: true,
		views: newViews(t.TempDir(), fstest.MapFS{}), view: viewExclusive,
		kick: make(chan struct{}, 1), saveSoon: make(chan struct{}, 1)}
}

func pod(uid string) *api.PodSandbox {
	return &api.PodSandbox{Id: "sandbox-" + uid, Uid: uid, Name: uid, Namespace: "default"}
}

func ctr(id, pod string, env ...string) *api.Container {
	return &api.Container{Id: id, Name: "c", PodSandboxId: "sandbox-" + pod, Env: env, State: api.ContainerState_CONTAINER_CREATED}
}

func create(t *testing.T, p *plugin, podUID, id string, env ...string) (*api.ContainerAdjustment, map[string]string) {
	t.Helper()
	a, u, err := p.CreateContainer(t.Context(), pod(podUID), ctr(id, podUID, env...))
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	return a, told(u)
}

func told(updates []*api.ContainerUpdate) map[string]string {
	out := map[string]string{}
	for _, u := range updates {
		out[u.GetContainerId()] = u.GetLinux().GetResources().GetCpu().GetCpus()
	}
	return out
}

func cpusOf(a *api.ContainerAdjustment) string { return a.GetLinux().GetResources().GetCpu().GetCpus() }

// A container that the runtime doesn't know yet when others shrink is told as soon as it can be.
// CPU checks 21 and 25.
func TestSharedContainerIsBeingCreated(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	a, _ := create(t, p, "s", "s1")
	if got := cpusOf(a); got != "0-7" {
		t.Fatalf("got %s", got)
	}
	prepared(t, l, on("a", 0, 2, ""))
	if _, u := create(t, p, "e", "e1", "DRA_CPUSET_a=0-1"); len(u) > 0 {
		t.Errorf("told %v, which the runtime would drop", u)
	}
	if err := p.PostCreateContainer(t.Context(), pod("s"), ctr("s1", "s")); err != nil {
		t.Fatal(err)
	}
	if len(p.kick) != 1 {
		t.Error("nobody tells the runtime")
	}
	if got := l.pending(); len(got) != 1 || got[0].cpus.String() != "2-7" {
		t.Errorf("got %v", got)
	}
	// It started meanwhile, perhaps with what it had: so it is told again.
	if err := p.PostStartContainer(t.Context(), pod("s"), ctr("s1", "s")); err != nil {
		t.Fatal(err)
	}
	if got := l.pending(); len(got) != 1 || got[0].cpus.String() != "2-7" {
		t.Errorf("after the start: got %v", got)
	}
	if got := l.pending(); len(got) != 0 {
		t.Errorf("nothing has changed, and told are %v", got)
	}
}

// CPU checks 31 and 53.
func TestForgedVariables(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, reservedFor(on("a", 0, 2, ""), "mine"))
	for _, env := range []string{
		"DRA_CPUSET_", "DRA_CPUSET_=0", "DRA_CPUSET_x=0-3", "DRA_CPUSET_a=0-", "DRA_CPUSET_a=abc", "DRA_CPUSET_a=", "DRA_CPUSET_a=0-9999",
		"DRA_CPUSET_a=0-3", "DRA_CPUSET_a=0-1", "DRA_CPUSET_a_7=0-1", "DRA_CPUSET_a_x=0-1",
	} {
		if a, _, err := p.CreateContainer(t.Context(), pod("thief"), ctr("t", "thief", env)); err == nil {
			t.Errorf("%s: the container gets %s", env, cpusOf(a))
		}
	}
	create(t, p, "mine", "m", "DRA_CPUSET_a=0-1")
	// One that runs already, from a time without the driver, runs with the others.
	thief := ctr("t", "thief", "DRA_CPUSET_a=0-1")
	mine := ctr("m", "mine", "DRA_CPUSET_a=0-1")
	broken := ctr("b", "other", "DRA_CPUSET_a=0-")
	u, err := p.Synchronize(t.Context(), []*api.PodSandbox{pod("thief"), pod("mine"), pod("other")}, []*api.Container{thief, broken, mine})
	if got := told(u); err != nil || got["t"] != "2-7" || got["b"] != "2-7" || got["m"] != "0-1" {
		t.Errorf("told are %v, %v", got, err)
	}
}

// CPU checks 11, 18 and 57.
func TestSharingOfClaims(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 0, 2, ""))
	first := ctr("i1", "p", "DRA_CPUSET_a=0-1")
	first.Name = "init"
	if _, _, err := p.CreateContainer(t.Context(), pod("p"), first); err != nil {
		t.Fatal(err)
	}
	app := ctr("c1", "p", "DRA_CPUSET_a=0-1")
	if _, _, err := p.CreateContainer(t.Context(), pod("p"), app); err == nil || !strings.Contains(err.Error(), "in use by the container default/p/init") {
		t.Errorf("two at a time: %v", err)
	}
	if _, err := p.StopContainer(t.Context(), pod("p"), first); err != nil {
		t.Fatal(err)
	}
	create(t, p, "p", "c1", "DRA_CPUSET_a=0-1")
	create(t, p, "p", "c2", "DRA_CPUSET_a=0-1") // the same container, started again before its end was heard of
	if _, _, err := p.CreateContainer(t.Context(), pod("q"), ctr("q1", "q", "DRA_CPUSET_a=0-1")); err == nil || !strings.Contains(err.Error(), "belongs to the pod p") {
		t.Errorf("another pod: %v", err)
	}
	l.claims["a"].Sharing = cpuset.SharedByPod
	app.Id, app.Name = "c3", "sidecar"
	if _, _, err := p.CreateContainer(t.Context(), pod("p"), app); err != nil {
		t.Errorf("shared by the pod: %v", err)
	}
}

// A named claim goes to another pod before kubelet has given it back: the first pod's
// end and the API's word make the second its owner, and nothing else does.
// CPU check 57.
func TestClaimPassesOn(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, reservedFor(on("a", 0, 2, ""), "first"))
	create(t, p, "first", "c1", "DRA_CPUSET_a=0-1")
	second := func() error {
		_, _, err := p.CreateContainer(t.Context(), pod("second"), ctr("c2", "second", "DRA_CPUSET_a=0-1"))
		return err
	}
	if len(l.unused()) > 0 || second() == nil {
		t.Fatal("the claim is in use and the second pod gets it")
	}
	if _, err := p.StopContainer(t.Context(), pod("first"), ctr("c1", "first")); err != nil {
		t.Fatal(err)
	}
	if second() == nil {
		t.Fatal("nobody has said that the claim is the second pod's")
	}
	if l.passOn("a", nil) || l.passOn("a", []types.UID{"first"}) || !l.passOn("a", []types.UID{"second"}) {
		t.Error("only other pods are a change")
	}
	if err := second(); err != nil {
		t.Error(err)
	}
}

// CPU check 20.
func TestEmptySharedPool(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(4, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 0, 2, ""))
	prepared(t, l, on("b", 1, 2, ""))
	if a, _, err := p.CreateContainer(t.Context(), pod("s"), ctr("s", "s")); err == nil || !strings.Contains(err.Error(), "no CPU is left") {
		t.Errorf("got %s, %v", cpusOf(a), err)
	}
	l.setMachine(numa(6, "0")) // CPUs come, and one that a claim has is reserved now
	create(t, p, "s", "s")
	reserved := newDisk(t).start(t, "boot", numa(4, "3"))
	prepared(t, reserved, on("a", 0, 2, ""))
	prepared(t, reserved, on("b", 1, 1, ""))
	if a, _ := create(t, testPlugin(t, reserved), "s", "s"); cpusOf(a) != "3" {
		t.Errorf("the last resort: got %s, want the reserved CPU 3", cpusOf(a))
	}
}

// CPU check 36.
func TestEnvironment(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 0, 2, ""))
	a, _ := create(t, p, "p", "c", "DRA_CPUSET_a=0-1", "OMP_NUM_THREADS=7", "MKL_NUM_THREADS=")
	got := map[string]string{}
	for _, e := range a.GetEnv() {
		got[e.GetKey()] = e.GetValue()
	}
	if got["DRA_CPUSET"] != "0-1" || got["DRA_CPU_COUNT"] != "2" || got["GOMAXPROCS"] != "2" || got["OMP_PLACES"] != "{0},{1}" {
		t.Errorf("got %v", got)
	}
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "DRA_CPUSET_a"} {
		if v, ok := got[name]; ok {
			t.Errorf("the pod's own %s becomes %q", name, v)
		}
	}
	p.threads = false
	if a, _ := create(t, p, "p", "d", "DRA_CPUSET_a=0-1"); len(a.GetEnv()) != 2 {
		t.Errorf("without threadEnvironment: got %v", a.GetEnv())
	}
}

// A container that asks for one of two requests gets that one's CPUs, and one that
// asks for both sees one variable, as of any claim.
// CPU check 37.
func TestEnvironmentOfSeveralRequests(t *testing.T) {
	add, remove := environment([]string{"DRA_CPUSET_a_0=0-1", "DRA_CPUSET_a_1=4"},
		&container{uses: []use{{claim: "a", cpus: set("0-1")}, {claim: "a", request: 1, cpus: set("4")}}, cpus: set("0-1,4")}, false)
	want := []variable{{"DRA_CPUSET_a", "0-1,4"}, {"DRA_CPUSET", "0-1,4"}, {"DRA_CPU_COUNT", "3"}}
	if len(add) != len(want) || add[0] != want[0] || add[1] != want[1] || add[2] != want[2] || len(remove) != 2 {
		t.Errorf("got %v and without %v", add, remove)
	}
}

// Kubelet's static policy, or anybody, sets other CPUs: ours stay, and readiness says so.
// CPU checks 34 and 49.
func TestRival(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 0, 2, ""))
	create(t, p, "p", "c", "DRA_CPUSET_a=0-1")
	ask := func(cpus string) map[string]string {
		r := &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: cpus}}
		u, err := p.UpdateContainer(t.Context(), pod("p"), ctr("c", "p"), r)
		if err != nil {
			t.Fatal(err)
		}
		return told(u)
	}
	if got := ask(""); got["c"] != "0-1" || p.state.get().rival != "" {
		t.Errorf("a change of memory: %v, %q", got, p.state.get().rival)
	}
	if got := ask("0-7"); got["c"] != "0-1" || p.state.get().rival == "" {
		t.Errorf("a change of CPUs: %v, %q", got, p.state.get().rival)
	}
}

// CPU checks 32 and 33.
func TestMemoryAndQuota(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	p := testPlugin(t, l)
	prepared(t, l, on("a", 1, 2, ""))
	a, _ := create(t, p, "p", "c", "DRA_CPUSET_a=4-5")
	if cpu := a.GetLinux().GetResources().GetCpu(); cpu.GetMems() != "" || cpu.GetQuota() != nil {
		t.Errorf("by default: %v", cpu)
	}
	l.localMemory, l.liftQuota = true, true
	a, _ = create(t, p, "p", "c", "DRA_CPUSET_a=4-5")
	if cpu := a.GetLinux().GetResources().GetCpu(); cpu.GetMems() != "1" || cpu.GetQuota().GetValue() != -1 {
		t.Errorf("opted in: %v", cpu)
	}
	// Kubelet changes the limit of a running container.
	quota := &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(100000)}}
	u, err := p.UpdateContainer(t.Context(), pod("p"), ctr("c", "p"), quota)
	if err != nil || len(u) != 1 || u[0].GetLinux().GetResources().GetCpu().GetQuota().GetValue() != -1 {
		t.Errorf("a new limit throttles: %v, %v", u, err)
	}
}

// A container that was made while the driver was away, or that it didn't answer for in time, gets its CPUs and its
// memory when it is connected again, and loses its quota.
// CPU checks 22 and 32.
func TestMemoryAfterwards(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	l.localMemory, l.liftQuota = true, true
	p := testPlugin(t, l)
	prepared(t, l, on("a", 1, 2, ""))
	c, shared := ctr("c", "p", "DRA_CPUSET_a=4-5"), ctr("s", "q")
	c.State, shared.State = api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_RUNNING
	u, err := p.Synchronize(t.Context(), []*api.PodSandbox{pod("p"), pod("q")}, []*api.Container{c, shared})
	if err != nil || len(u) != 2 {
		t.Fatal(u, err)
	}
	for i, want := range []string{"4-5 1 -1", "0-3,6-7  0"} {
		if cpu := u[i].GetLinux().GetResources().GetCpu(); fmt.Sprint(cpu.GetCpus()+" "+cpu.GetMems()+" ", cpu.GetQuota().GetValue()) != want {
			t.Errorf("%s gets %s", u[i].GetContainerId(), cpu)
		}
	}
}
