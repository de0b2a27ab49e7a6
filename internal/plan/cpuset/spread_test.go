package cpuset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// CPU check 6.
func TestPickSpread(t *testing.T) {
	two, caches := shapes()[4].build(), shapes()[3].build() // 2 nodes of 32 CPUs, pairs (i, i+32); 4 L3 of 4 cores, pairs (i, i+16)
	for _, c := range []struct {
		top  Topology
		free string
		n    int
		by   Spread
		want string
	}{
		{two, "0-63", 4, OverNUMANodes, "0,16,32,48"},
		{two, "0-63", 6, OverNUMANodes, "0-1,16,32-33,48"},
		{two, "0-63", 3, OverNUMANodes, "0,16,32"},
		{two, "0-63", 1, OverSockets, "0"},
		{two, "0-1,16-31,32-33,48-63", 12, OverSockets, "0-1,16-19,32-33,48-51"}, // what one hasn't, the other gives
		{two, "16-31,48-63", 4, OverNUMANodes, "16-17,48-49"},
		{caches, "0-31", 8, OverL3Caches, "0,4,8,12,16,20,24,28"},
		{caches, "0-31", 4, OverCores, "0-3"},
		{caches, "0-2,16-18", 5, OverCores, "0-2,16-17"},
		{shapes()[1].build(), "0-3", 2, OverL3Caches, "0-1"}, // a machine that tells of no cache is one
		{hybrid(), "0-7", 4, OverCores, "0,2,4-5"},
	} {
		got, err := PickSpread(c.top, mustParse(t, c.free), c.n, c.by)
		if err != nil || got.String() != c.want {
			t.Errorf("%d of %s over %s: got %s, %v; want %s", c.n, c.free, c.by, got, err, c.want)
		}
	}
	for _, n := range []int{0, -1, 3} {
		if got, err := PickSpread(two, Of(0, 1), n, OverCores); err == nil {
			t.Errorf("%d of 2: got %s", n, got)
		}
	}
}

// On any machine, with anything free: as many CPUs as asked for, all of them free, and no part that has more free has
// a core less than another.
func TestPickSpreadInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for _, s := range append(shapes(), shape{}) {
		top := hybrid()
		if s.cores > 0 {
			top = s.build()
		}
		for range 60 {
			var free Set
			for c := range top.All().All() {
				if r.IntN(4) > 0 {
					free.add(c)
				}
			}
			if free.Empty() {
				continue
			}
			n, by := 1+r.IntN(free.Len()), spreads()[r.IntN(len(spreads()))]
			got, err := PickSpread(top, free, n, by)
			if err != nil || got.Len() != n || !got.Within(free) {
				t.Fatalf("%s: %d of %s over %s: got %s, %v", s.name, n, free, by, got, err)
			}
			most := 0
			for _, g := range top.GroupBy(by.of()) {
				most = max(most, g.CPUs.Intersect(got).Len())
			}
			for _, g := range top.GroupBy(by.of()) {
				has := g.CPUs.Intersect(got).Len()
				if more := g.CPUs.Intersect(free).Len() > has; more && most-has > max(1, s.smt) {
					t.Errorf("%s: %d of %s over %s: %s has %d and another %d", s.name, n, free, by, g.CPUs, has, most)
				}
			}
		}
	}
}

// A claim says how its CPUs are chosen, also of the machine as one device, and is refused where that can't be.
// CPU checks 6 and 8.
func TestResolveChoice(t *testing.T) {
	socket := Exposure{Mode: Grouped, GroupBy: BySocket}
	whole := Exposure{Mode: Grouped, GroupBy: ByMachine}
	cores := Exposure{Mode: Grouped, GroupBy: BySocket, WholeCores: true}
	named := Exposure{Mode: Grouped, GroupBy: BySocket, Named: true}
	for _, c := range []struct {
		e      Exposure
		n      string
		device string
		params string
		near   string
		want   string // CPUs, or a part of the error after "!"
	}{
		{whole, "4", "cpudevmachine", `{"spread":"numanode"}`, "", "0,16,32,48"},
		{whole, "4", "cpudevmachine", `{"sharing":"pod"}`, "", "!must name its CPUs"},
		{socket, "4", "cpudevsocket000", `{"spread":"l3cache"}`, "", "0,4,32,36"},
		{socket, "4", "cpudevsocket000", `{"spread":"core"}`, "", "0-3"},
		{cores, "4", "cpudevsocket000", `{"spread":"core"}`, "", "!gives out whole ones"},
		{cores, "4", "cpudevsocket000", `{"spread":"l3cache"}`, "", "0,4,32,36"},
		{socket, "4", "cpudevsocket000", `{"near":"devices"}`, "8-15,40-47", "8-9,40-41"},
		{socket, "4", "cpudevsocket000", `{"near":"devices"}`, "8,40", "8-9,40-41"},
		{socket, "4", "cpudevsocket000", `{"near":"devices"}`, "16-31", "0-1,32-33"}, // none of the device is near
		{cores, "2", "cpudevsocket000", `{"near":"devices"}`, "8-9,40", "8,40"},
		{whole, "4", "cpudevmachine", `{"near":"devices","spread":"l3cache"}`, "8-15,40-47", "8,12,40,44"},
		{whole, "65", "cpudevmachine", `{"near":"devices"}`, "8-15", "!64 are free"},
		{named, "2", "cpudevsocket000", `{"spread":"core"}`, "", "!cpuset: ...}}"},
		{named, "2", "cpudevsocket000", `{"cpuset":"4-5"}`, "", "4-5"},
		{socket, "2", "cpudevsocket000", `{"near":"me"}`, "", `!cpuConfig.near is "me"`},
		{socket, "2", "cpudevsocket000", `{"spread":"wide"}`, "", `!cpuConfig.spread is "wide"`},
		{socket, "2", "cpudevsocket000", `{"spread":"core","cpuset":"0-1"}`, "", "!nothing to choose"},
	} {
		m := machine(shapes()[4], c.e)
		m.Near = mustParse(t, c.near)
		rc := claim(result("a", c.device, c.n), opaque(`{"apiVersion":"v1alpha1","cpuConfig":`+c.params+`}`))
		if want := strings.Contains(c.params, `"near":"devices"`); WantsNear(rc) != want {
			t.Errorf("%s: asks for near CPUs: %v", c.params, !want)
		}
		got, _, err := m.Resolve(rc, nil)
		said := fmt.Sprint(err)
		if len(got) == 1 {
			said = got[0].CPUs.String()
		}
		if want, refused := strings.CutPrefix(c.want, "!"); refused != (err != nil) || !refused && said != want || !strings.Contains(said, want) {
			t.Errorf("%s of %s, %s near %q: got %s, want %s", c.n, c.device, c.params, c.near, said, c.want)
		}
	}
}

// A device says its roots or its NUMA node, or neither; the newest slice counts, and only devices of others.
// CPU check 8.
func TestNearDevices(t *testing.T) {
	top := shapes()[4].build()
	top.PCIeRoots = []Root{{"pci0000:00", mustParse(t, "0-7")}, {"pci0000:80", mustParse(t, "16-23")}}
	gpu := func(name string, a attributes) resourceapi.Device {
		return resourceapi.Device{Name: name, Attributes: a}
	}
	slice := func(driver string, generation int64, devices ...resourceapi.Device) resourceapi.ResourceSlice {
		s := resourceapi.ResourceSlice{}
		s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Pool.Generation, s.Spec.Devices = driver, "node-1", generation, devices
		return s
	}
	published := []resourceapi.ResourceSlice{
		slice("gpu", 1, gpu("old", attributes{pcieRoot: text("pci0000:00")}), gpu("a", attributes{pcieRoot: text("pci0000:00")})),
		slice("gpu", 2, gpu("a", attributes{pcieRoot: text("pci0000:80"), numaNode: number(0)}),
			gpu("several", attributes{pcieRoot: {StringValues: []string{"pci0000:00", "pci0000:80"}}}),
			gpu("elsewhere", attributes{pcieRoot: text("pci0000:ff"), numaNode: number(1)}), gpu("node", attributes{numaNodeDranet: number(0)}), gpu("nowhere", nil)),
		slice(DriverName, 3, gpu("cpudevnuma000", attributes{numaNode: number(0)})),
		slice("nic", 1, gpu("a", attributes{numaNode: number(0)})),
	}
	for device, want := range map[string]string{
		"a": "16-23", "several": "0-7,16-23", "elsewhere": "16-31,48-63", "node": "0-15,32-47", "nowhere": "", "none": "",
	} {
		r := result("gpu", device, "")
		r.Driver = "gpu"
		if got := top.NearDevices(claim(result("cpu", "cpudevnuma000", "1"), r), published); got.String() != want {
			t.Errorf("near to %s: got %s, want %s", device, got, want)
		}
	}
}

// Homes are shared out by size, stay where they are, and only those move who must.
// CPU check 24.
func TestHomeOf(t *testing.T) {
	sets := []Set{mustParse(t, "0-29"), mustParse(t, "30-39"), {}}
	moved, at := 0, map[string]int{}
	smaller := []Set{mustParse(t, "0-4"), sets[1], {}}
	for i := range 4000 {
		key := fmt.Sprint("pod-", i)
		home := HomeOf(sets, key)
		if !home.Equal(HomeOf(sets, key)) {
			t.Fatalf("%s has two homes", key)
		}
		at[home.String()]++
		switch later := HomeOf(smaller, key); {
		case home.Equal(sets[1]) && !later.Equal(sets[1]):
			t.Errorf("%s leaves the set that has become no smaller", key)
		case home.Equal(sets[0]) && later.Equal(sets[1]):
			moved++
		}
	}
	// 3 of 4, and then 1 of 3, so 5 of 12 must move.
	if n := at["0-29"]; n < 2800 || n > 3200 || at["0-29"]+at["30-39"] != 4000 {
		t.Errorf("at home are %v", at)
	}
	if moved < 1500 || moved > 1850 {
		t.Errorf("%d have moved", moved)
	}
	if got := HomeOf([]Set{{}, {}}, "pod"); !got.Empty() {
		t.Errorf("there is no set, and the home is %s", got)
	}
}

// A claim whose CPUs are known has them again on its own terms, whatever its configuration let the driver choose.
func TestExactly(t *testing.T) {
	m := machine(shapes()[4], Exposure{Mode: Grouped, GroupBy: BySocket})
	for _, params := range []string{`{"sharing":"pod","withShared":true,"spread":"core"}`, `{"cpuset":"2-3","sharing":"pod","withShared":true}`} {
		rc, err := Exactly(claim(result("a", "cpudevsocket000", "2"), opaque(`{"apiVersion":"v1alpha1","cpuConfig":`+params+`}`)), Of(5, 7))
		if err != nil {
			t.Fatal(err)
		}
		got, terms, err := m.Resolve(rc, nil)
		if err != nil || len(got) != 1 || got[0].CPUs.String() != "5,7" || terms != (Terms{SharedByPod, true}) {
			t.Errorf("%s: got %v, %v, %v", params, got, terms, err)
		}
	}
	if _, err := Exactly(claim(opaque(`{`)), Of(1)); err == nil {
		t.Error("a configuration that can't be read was taken")
	}
}

// On a hybrid machine the kinds of cores are devices of their own, so the scheduler counts them.
// CPU check 2.
func TestDevicesByCoreType(t *testing.T) {
	var got []string
	for _, d := range Devices(hybrid(), Exposure{Mode: Grouped, GroupBy: ByCoreType, Reserved: Of(4)}) {
		got = append(got, fmt.Sprint(d.Name, " ", d.CPUs, " ", *d.Attributes["dra.cpu/coreType"].StringValue))
	}
	if want := "cpudevpcore000 0-3 p-core, cpudevecore000 5-7 e-core"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
