package cpuset

import (
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// With wholeCores no two claims share a core, on any machine, whatever comes and goes; the scheduler rounds up to cores (CPU check 5).
func TestWholeCores(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			e := Exposure{Mode: Grouped, GroupBy: BySocket, WholeCores: true, Reserved: Of(0)}
			if s.cores == 1 {
				e.Reserved = Set{}
			}
			m := machine(s, e)
			r := rand.New(rand.NewPCG(5, uint64(len(m.Topology.CPUs))))
			var live []Held
			given := 0
			for i := range 200 {
				if i%5 == 4 && len(live) > 0 {
					live = live[1:]
				}
				d := m.Devices[r.IntN(len(m.Devices))]
				policy := *d.Describe(e).Capacity[CapacityCPU].RequestPolicy
				if step := policy.ValidRange.Min.Value(); int(step) != s.smt || policy.Default.Value()%step != 0 {
					t.Fatalf("%s is given out by %d CPUs, of %d", d.Name, step, policy.Default.Value())
				}
				n := (1 + r.IntN(3)) * s.smt
				grants, _, err := m.Resolve(claim(result("cpu", d.Name, quantity(n).String())), live)
				if err != nil {
					continue // It is full.
				}
				got := grants[0].CPUs
				if got.Len() != n || m.Topology.Cores(got)*s.smt != n || got.Overlaps(e.Reserved) {
					t.Fatalf("%d CPUs: got %s", n, got)
				}
				given++
				live = append(live, Held{Holder: "claim", CPUs: got})
			}
			if given == 0 {
				t.Error("nothing was given out: this shows nothing")
			}
		})
	}
}

func TestWholeCoresRefused(t *testing.T) {
	e := Exposure{Mode: Grouped, GroupBy: ByNUMANode, WholeCores: true, Reserved: Of(0)}
	m := machine(shapes()[2], e) // 8 cores of two threads, i and i+8
	if d := m.Devices[0]; d.CPUs.String() != "1-7,9-15" {
		t.Errorf("the other thread of a reserved CPU is offered: %s", d.CPUs)
	}
	for want, c := range map[string]*resourceapi.ResourceClaim{
		"parts of cores":            claim(result("cpu", "cpudevnuma000", "3")),
		"CPUs 3 are parts of cores": claim(result("cpu", "cpudevnuma000", "3"), exactly("2-3,10")),
		"not of this device: 8":     claim(result("cpu", "cpudevnuma000", "1"), exactly("8")),
	} {
		if _, _, err := m.Resolve(c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if got, _, err := m.Resolve(claim(result("cpu", "cpudevnuma000", "2"), exactly("2,10")), nil); err != nil || got[0].CPUs.String() != "2,10" {
		t.Errorf("a whole core by name: %v, %v", got, err)
	}
	// Cores of unequal width: a number of CPUs says nothing, so only what makes whole cores is given.
	h := Machine{Topology: hybrid(), Exposure: Exposure{Mode: Grouped, GroupBy: BySocket, WholeCores: true}, Pool: "node-1"}
	h.Devices = Devices(h.Topology, h.Exposure)
	for n := 1; n <= 8; n++ {
		got, _, err := h.Resolve(claim(result("cpu", h.Devices[0].Name, quantity(n).String())), nil)
		if whole := err == nil; n%2 == 0 && !whole || whole && wholeOf(h.Topology.GroupBy(byCore), got[0].CPUs).Len() != n {
			t.Errorf("%d of a hybrid machine: %v, %v", n, got, err)
		}
	}
}
