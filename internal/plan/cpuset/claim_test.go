package cpuset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

func machine(s shape, e Exposure) Machine {
	top := s.build()
	return Machine{Topology: top, Exposure: e, Pool: "node-1", Devices: Devices(top, e)}
}

// result is one device of a claim; an amount makes it a group's.
func result(request, device, amount string) resourceapi.DeviceRequestAllocationResult {
	r := resourceapi.DeviceRequestAllocationResult{Request: request, Driver: DriverName, Pool: "node-1", Device: device}
	if amount != "" {
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{CapacityCPU: resource.MustParse(amount)}
	}
	return r
}

func opaque(params string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	c := resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClaim, Requests: requests}
	c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: DriverName, Parameters: runtime.RawExtension{Raw: []byte(params)}}
	return c
}

func exactly(cpus string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return opaque(fmt.Sprintf(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":%q}}`, cpus), requests...)
}

func claim(parts ...any) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	d := &c.Status.Allocation.Devices
	for _, p := range parts {
		switch p := p.(type) {
		case resourceapi.DeviceRequestAllocationResult:
			d.Results = append(d.Results, p)
		case resourceapi.DeviceAllocationConfiguration:
			d.Config = append(d.Config, p)
		}
	}
	return c
}

// CPU checks 10, 58 and 60.
func TestResolve(t *testing.T) {
	c := shapes()[4] // two sockets, 64 CPUs
	individual, numa := Exposure{Mode: Individual}, Exposure{Mode: Grouped, GroupBy: ByNUMANode, Reserved: Of(0)}
	whole := Exposure{Mode: Grouped, GroupBy: ByMachine, Reserved: Of(0)}
	foreign := result("gpu", "gpu-0", "")
	foreign.Driver = "gpu.example.com"
	elsewhere := result("cpu", "cpudev000", "")
	elsewhere.Pool = "node-2"
	class := exactly("1-2")
	class.Source = resourceapi.AllocationConfigSourceClass
	otherDriver := exactly("1-2")
	otherDriver.Opaque.Driver = "gpu.example.com"

	for _, x := range []struct {
		name  string
		e     Exposure
		claim *resourceapi.ResourceClaim
		want  string // sets by request, or a part of the error after "!"
	}{
		{"not allocated", individual, &resourceapi.ResourceClaim{}, "!not allocated"},
		{"only another driver's", individual, claim(foreign), ""},
		{"individual", individual, claim(result("cpu", "cpudev000", ""), foreign, result("cpu", "cpudev001", "")), "cpu=0 cpu=32"},
		{"individual twice", individual, claim(result("a", "cpudev000", ""), result("b", "cpudev000", "")), `!request "a" of the same claim`},
		{"held", individual, claim(result("a", "cpudev062", "")), "!claim default/holder"},
		{"unknown device", individual, claim(result("a", "cpudev064", "")), "!no such device: it offers 64, from cpudev000 to cpudev063"},
		{"another node's", individual, claim(elsewhere), "!another node"},

		{"picked", numa, claim(result("a", "cpudevnuma001", "4")), "a=28-29,60-61"},
		{"picked twice", numa, claim(result("a", "cpudevnuma001", "2"), result("b", "cpudevnuma001", "2")), "a=28,60 b=29,61"},
		{"too many", numa, claim(result("a", "cpudevnuma001", "31")), "!30 are free"},
		{"a part of a CPU", numa, claim(result("a", "cpudevnuma001", "1500m")), "!1500m"},
		{"none", numa, claim(result("a", "cpudevnuma001", "0")), "!whole number"},
		{"no amount", numa, claim(result("a", "cpudevnuma001", "")), "!doesn't say how much"},

		{"exact in a node", numa, claim(result("a", "cpudevnuma001", "3"), exactly("20,22,55")), "a=20,22,55"},
		{"exact for one request", numa, claim(result("a", "cpudevnuma001", "1"), result("b", "cpudevnuma000", "1"), exactly("21", "a")), "a=21 b=32"},
		{"exact for a subrequest", numa, claim(result("a/big", "cpudevnuma001", "1"), exactly("21", "a")), "a/big=21"},
		{"exact over two nodes", numa, claim(result("a", "cpudevnuma000", "2"), result("a", "cpudevnuma001", "1"), exactly("3-4,18")), "a=3-4 a=18"},
		{"exact over two nodes, too many", numa, claim(result("a", "cpudevnuma000", "2"), result("a", "cpudevnuma001", "1"), exactly("3-5,18")), "!names 3 CPUs (3-5) and consumes 2"},
		{"exact elsewhere", numa, claim(result("a", "cpudevnuma001", "1"), exactly("3")), "!not of this device: 3"},
		{"exact reserved", numa, claim(result("a", "cpudevnuma000", "1"), exactly("0")), "!reserved CPUs: 0"},
		{"exact offline", numa, claim(result("a", "cpudevnuma001", "1"), exactly("64")), "!not online: 64"},
		{"exact held", numa, claim(result("a", "cpudevnuma001", "1"), exactly("31")), "!claim default/holder"},
		{"another driver's configuration", numa, claim(result("a", "cpudevnuma001", "1"), otherDriver), "a=63"},

		{"machine", whole, claim(result("a", "cpudevmachine", "4"), exactly("2-5")), "a=2-5"},
		{"machine without a set", whole, claim(result("a", "cpudevmachine", "4")), "!must name its CPUs"},
		{"machine, wrong number", whole, claim(result("a", "cpudevmachine", "3"), exactly("2-5")), "!names 4 CPUs (2-5) and consumes 3"},
		{"two configurations", whole, claim(result("a", "cpudevmachine", "1"), exactly("2"), exactly("2")), "!more than one"},
		{"from the class", whole, claim(result("a", "cpudevmachine", "2"), class), "!from the device class"},
		{"empty set", whole, claim(result("a", "cpudevmachine", "1"), exactly("")), "!cpuset is empty"},
		{"bad set", whole, claim(result("a", "cpudevmachine", "1"), exactly("3-1")), "!ends before it begins"},
		{"bad version", whole, claim(result("a", "cpudevmachine", "1"), opaque(`{"apiVersion":"v2"}`)), "!want v1alpha1"},
		{"unknown key", whole, claim(result("a", "cpudevmachine", "1"), opaque(`{"apiVersion":"v1alpha1","cpuConfig":{"cpus":"1"}}`)), "!cpus"},
	} {
		t.Run(x.name, func(t *testing.T) {
			held := []Held{{Holder: "claim default/holder", CPUs: Of(31, 63)}}
			if x.name == "another driver's configuration" {
				held = nil
				x.want = "a=16"
			}
			grants, _, err := machine(c, x.e).Resolve(x.claim, held)
			if part, fails := strings.CutPrefix(x.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, %v; want an error with %q", grants, err, part)
				}
				return
			}
			var got []string
			for _, g := range grants {
				got = append(got, g.Request+"="+g.CPUs.String())
			}
			if err != nil || strings.Join(got, " ") != x.want {
				t.Errorf("got %s, %v; want %s", strings.Join(got, " "), err, x.want)
			}
		})
	}
}

// CPU check 11.
func TestResolveSharing(t *testing.T) {
	m := machine(shapes()[2], Exposure{Mode: Grouped, GroupBy: ByNUMANode})
	for params, want := range map[string]Terms{
		`{"sharing":"pod"}`:   {Sharing: SharedByPod},
		`{"withShared":true}`: {WithShared: true},
		`{"withShared":true,"sharing":"pod","cpuset":"0,8"}`: {SharedByPod, true},
		`{"spread":"core","cpuset":""}`:                      {},
	} {
		c := claim(result("a", "cpudevnuma000", "2"), opaque(`{"apiVersion":"v1alpha1","cpuConfig":`+params+`}`))
		grants, terms, err := m.Resolve(c, nil)
		if err != nil || terms != want || len(grants) != 1 || grants[0].CPUs.Len() != 2 {
			t.Errorf("%s: got %v, %v, %v", params, grants, terms, err)
		}
	}
}

// Any sequence of claims and releases, on any machine and in any mode: no CPU is
// given twice, none is reserved, each is of its device, and there are as many as consumed.
func TestResolveInvariants(t *testing.T) {
	for _, s := range shapes() {
		for _, e := range exposures(Of(0)) {
			if len(Devices(s.build(), e)) == 0 || e.GroupBy == ByMachine {
				continue
			}
			t.Run(fmt.Sprintf("%s %s %s", s.name, e.Mode, e.GroupBy), func(t *testing.T) { churn(t, machine(s, e)) })
		}
	}
}

func churn(t *testing.T, m Machine) {
	r := rand.New(rand.NewPCG(3, uint64(len(m.Devices))))
	var held []Held
	for i := range 80 {
		if len(held) > 0 && r.IntN(3) == 0 {
			j := r.IntN(len(held))
			held = append(held[:j:j], held[j+1:]...)
			continue
		}
		device := m.Devices[r.IntN(len(m.Devices))]
		n, amount := 1, ""
		if m.Exposure.Mode == Grouped {
			n = 1 + r.IntN(device.CPUs.Len())
			amount = fmt.Sprint(n)
		}
		grants, _, err := m.Resolve(claim(result("r", device.Name, amount)), held)
		if err != nil {
			continue
		}
		got := grants[0].CPUs
		if got.Len() != n || !got.Within(device.CPUs) || got.Has(0) {
			t.Fatalf("%d of %s: got %s", n, device.Name, got)
		}
		for _, h := range held {
			if h.CPUs.Overlaps(got) {
				t.Fatalf("%s is given, and %s has %s", got, h.Holder, h.CPUs)
			}
		}
		held = append(held, Held{Holder: fmt.Sprint("claim ", i), CPUs: got})
	}
}
