package device_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
)

// asks is what one container asks for, as "dra.cpu=2". A name that begins with "init" is of an init container.
type asks struct{ name, want string }

func pod(of ...asks) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p"}}
	for _, a := range of {
		c := corev1.Container{Name: a.name}
		c.Resources.Requests = corev1.ResourceList{}
		for _, part := range strings.Fields(a.want) {
			class, n, _ := strings.Cut(part, "=")
			c.Resources.Requests[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class)] = resource.MustParse(n)
		}
		if strings.HasPrefix(a.name, "init") {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// text shows a claim's results, configuration and mappings, one each line.
func text(c *device.Claim) string {
	var b strings.Builder
	for _, r := range c.Allocation.Devices.Results {
		fmt.Fprintf(&b, "%s %s/%s/%s", r.Request, r.Driver, r.Pool, r.Device)
		for _, q := range r.ConsumedCapacity {
			fmt.Fprintf(&b, " takes %s", q.String())
		}
		b.WriteString("\n")
	}
	for _, c := range c.Allocation.Devices.Config {
		fmt.Fprintf(&b, "%s %v %s %s\n", c.Source, c.Requests, c.Opaque.Driver, c.Opaque.Parameters.Raw)
	}
	for _, m := range c.Mappings {
		fmt.Fprintf(&b, "%s has %s for %s\n", m.ContainerName, m.RequestName, strings.TrimPrefix(m.ResourceName, resourcev1.ResourceDeviceClassPrefix))
	}
	return b.String()
}

func gpus(driver string, indexes ...int) []slurm.GRESAllocation {
	return []slurm.GRESAllocation{{Name: "gpu", Type: driver, Count: uint64(len(indexes)), Indexes: indexes}}
}

func TestExtended(t *testing.T) {
	machines := devicetest.Machines()
	all := func(n int) []int {
		var out []int
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	for name, c := range map[string]struct {
		machine string
		pod     *corev1.Pod
		grant   device.Grant
		want    string
		err     string
	}{
		"single CPUs with their siblings": {"smt", pod(asks{"main", "dra.cpu=4"}), device.Grant{Cores: []int{1, 17}}, `
cpu dra.cpu/smt/cpudev001
cpu dra.cpu/smt/cpudev033
cpu dra.cpu/smt/cpudev017
cpu dra.cpu/smt/cpudev049
main has cpu for dra.cpu
`, ""},
		"containers share no core": {"smt", pod(asks{"a", "dra.cpu=1"}, asks{"b", "dra.cpu=2"}), device.Grant{Cores: []int{0, 1}}, `
cpu dra.cpu/smt/cpudev000
cpu-1 dra.cpu/smt/cpudev001
cpu-1 dra.cpu/smt/cpudev033
a has cpu for dra.cpu
b has cpu-1 for dra.cpu
`, ""},
		"but where there are too few": {"smt", pod(asks{"a", "dra.cpu=1"}, asks{"b", "dra.cpu=1"}), device.Grant{Cores: []int{3}}, `
cpu dra.cpu/smt/cpudev003
cpu-1 dra.cpu/smt/cpudev035
a has cpu for dra.cpu
b has cpu-1 for dra.cpu
`, ""},
		"an init container uses what comes after it": {"smt", pod(asks{"init", "dra.cpu=3"}, asks{"a", "dra.cpu=2"}), device.Grant{Cores: []int{0, 1}}, `
cpu dra.cpu/smt/cpudev000
cpu dra.cpu/smt/cpudev032
cpu-1 dra.cpu/smt/cpudev001
init has cpu for dra.cpu
init has cpu-1 for dra.cpu
a has cpu for dra.cpu
`, ""},
		"groups, each with its CPUs": {"numa", pod(asks{"main", "dra.cpu=6"}), device.Grant{Cores: []int{14, 15, 16}}, `
cpu dra.cpu/numa/cpudevnuma000 takes 4
cpu-1 dra.cpu/numa/cpudevnuma001 takes 2
FromClaim [cpu] dra.cpu {"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"14-15,46-47"}}
FromClaim [cpu-1] dra.cpu {"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"16,48"}}
main has cpu for dra.cpu
main has cpu-1 for dra.cpu
`, ""},
		"the whole machine": {"whole", pod(asks{"main", "dra.cpu=4"}), device.Grant{Cores: []int{1, 2}}, `
cpu dra.cpu/whole/cpudevmachine takes 4
FromClaim [cpu] dra.cpu {"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"1-2,5-6"}}
main has cpu for dra.cpu
`, ""},
		"indexes of GPUs with holes": {"gpus", pod(asks{"main", "gpu.nvidia.com=2"}), device.Grant{GRES: gpus("gpu.nvidia.com", 1, 4)}, `
gpu gpu.nvidia.com/gpus/gpu-2
gpu gpu.nvidia.com/gpus/gpu-6
main has gpu for gpu.nvidia.com
`, ""},
		"a whole node, trimmed to the cores near the GPU": {"gpus", pod(asks{"main", "gpu.nvidia.com=1 dra.cpu=2"}),
			device.Grant{Cores: all(16), GRES: gpus("", 3, 4, 5)}, `
gpu gpu.nvidia.com/gpus/gpu-4
cpu dra.cpu/gpus/cpudev008
cpu dra.cpu/gpus/cpudev024
main has cpu for dra.cpu
main has gpu for gpu.nvidia.com
`, ""},
		"a count without indexes, whole node": {"gpus", pod(asks{"main", "gpu.nvidia.com=2"}),
			device.Grant{Cores: all(16), GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "gpu.nvidia.com", Count: 2}}}, `
gpu gpu.nvidia.com/gpus/gpu-0
gpu gpu.nvidia.com/gpus/gpu-2
main has gpu for gpu.nvidia.com
`, ""},
		"a count without indexes, part of a node": {"gpus", pod(asks{"main", "gpu.nvidia.com=2"}),
			device.Grant{Cores: all(3), GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "gpu.nvidia.com", Count: 2}}}, "", "without saying which"},
		"too few GPUs":  {"gpus", pod(asks{"main", "gpu.nvidia.com=2"}), device.Grant{GRES: gpus("gpu.nvidia.com", 0)}, "", "Slurm gave pod p 1 devices"},
		"too few cores": {"smt", pod(asks{"main", "dra.cpu=4"}), device.Grant{Cores: []int{0}}, "", "Slurm gave pod p 1 cores"},
		"a core that isn't published": {"reserved", pod(asks{"main", "dra.cpu=2"}), device.Grant{Cores: []int{14}}, "",
			"Slurm gave core 14 of node reserved, which its driver doesn't publish"},
		"more than a claim can hold": {"big", pod(asks{"main", "dra.cpu=64"}), device.Grant{Cores: all(32)}, "",
			"pod p needs 64 devices of node big, and Kubernetes allows 32 in a claim: let the CPU driver publish groups"},
		"no driver":         {"bare", pod(asks{"main", "dra.cpu=1"}), device.Grant{Cores: []int{0}}, "", "driver dra.cpu publishes no CPUs there"},
		"an unknown driver": {"bare", pod(asks{"main", "fpga.example.com=1"}), device.Grant{}, "", "no known driver serves"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machines[c.machine]
			got, err := device.Extended(c.pod, device.Of(m.Node, m.Slices, device.Known()), c.grant, device.Known())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimPrefix(c.want, "\n"), text(got)); d != "" {
				t.Error(d)
			}
			again, err := device.Extended(c.pod, device.Of(m.Node, m.Slices, device.Known()), c.grant, device.Known())
			if err != nil || !sameBytes(t, got, again) {
				t.Errorf("planned twice, it differs (%v)", err)
			}
		})
	}
}

func sameBytes(t *testing.T, a, b *device.Claim) bool {
	t.Helper()
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return string(x) == string(y)
}

func TestNoDevicesAsked(t *testing.T) {
	m := devicetest.Machines()["smt"]
	got, err := device.Extended(pod(asks{"main", ""}), device.Of(m.Node, m.Slices, device.Known()), device.Grant{Cores: []int{0}}, device.Known())
	if got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every core is of one pod, whatever the pods ask for: then no device and no CPU is given twice.
func TestNothingIsGivenTwice(t *testing.T) {
	machines := devicetest.Machines()
	for _, name := range []string{"smt", "numa", "whole", "hybrid", "reserved", "gpus"} {
		m := machines[name]
		n := device.Of(m.Node, m.Slices, device.Known())
		var holders []device.Holder
		var cores []int
		for i, core := range n.CPUs.Cores {
			if len(core.CPUs) > 0 {
				cores = append(cores, i)
			}
		}
		for size := 1; len(cores) > 0; size = size%5 + 1 {
			mine := cores[:min(size, len(cores))]
			cores = cores[len(mine):]
			p := pod(asks{"main", fmt.Sprintf("dra.cpu=%d", len(mine)*n.CPUs.Threads)})
			p.UID = types.UID(fmt.Sprintf("uid-%d", len(holders)))
			c, err := device.Extended(p, n, device.Grant{Cores: mine}, device.Known())
			if err != nil {
				t.Fatalf("%s, cores %v: %v", name, mine, err)
			}
			if h, what, taken := device.Conflict(c.Allocation, holders); taken {
				t.Fatalf("%s: cores %v have %s of %s", name, mine, what, h.UID)
			}
			holders = append(holders, device.Holder{UID: p.UID, Allocation: &c.Allocation})
			if _, _, taken := device.Conflict(c.Allocation, holders); !taken {
				t.Fatalf("%s: what pod %s has isn't seen", name, p.UID)
			}
		}
	}
}

// A device is looked at beside those who use it.
func TestLookingIsNoConflict(t *testing.T) {
	yes, no := true, false
	one := func(admin *bool) resourcev1.AllocationResult {
		return resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "gpu.example.com", Pool: "n", Device: "gpu-0", AdminAccess: admin}}}}
	}
	for _, c := range []struct {
		mine, theirs *bool
		taken        bool
	}{{nil, nil, true}, {&no, &no, true}, {&yes, nil, false}, {nil, &yes, false}, {&yes, &yes, false}} {
		theirs := one(c.theirs)
		if _, _, taken := device.Conflict(one(c.mine), []device.Holder{{Allocation: &theirs}}); taken != c.taken {
			t.Errorf("%+v: %t", c, taken)
		}
	}
}

// A pod that no claim can serve on a node isn't sent there.
// CPU check 51.
func TestLacksCPUs(t *testing.T) {
	machines := devicetest.Machines()
	for _, c := range []struct {
		machine string
		pod     *corev1.Pod
		want    string
	}{
		{"smt", pod(asks{"init", "dra.cpu=32"}, asks{"a", "dra.cpu=30"}, asks{"b", "dra.cpu=2"}), ""},
		{"smt", pod(asks{"a", "dra.cpu=33"}), "the CPU driver publishes single CPUs, of which a claim holds 32"},
		{"numa", pod(asks{"a", "dra.cpu=33"}), ""},
		{"bare", pod(asks{"a", "dra.cpu=1"}), "no CPU driver publishes its CPUs"},
		{"plugin", pod(asks{"a", "dra.cpu=1"}), "no CPU driver publishes its CPUs"},
	} {
		if got := device.LacksCPUs(machines[c.machine].Slices, device.CPUsOf(c.pod)); got != c.want {
			t.Errorf("%s, %d CPUs: %q, want %q", c.machine, device.CPUsOf(c.pod), got, c.want)
		}
	}
}

func TestUnreadableSlices(t *testing.T) {
	odd := devicetest.New("odd", 4).Publish("dra.cpu", 1,
		resourcev1.Device{Name: "none"},
		resourcev1.Device{Name: "negative", Attributes: devicetest.Attributes(map[string]any{"dra.cpu/cpuID": -1, "dra.cpu/coreID": 0, "dra.cpu/socketID": 0})},
		resourcev1.Device{Name: "text", Attributes: devicetest.Attributes(map[string]any{"dra.cpu/cpuID": "x", "dra.cpu/coreID": 0, "dra.cpu/socketID": 0})})
	n := device.Of(odd.Node, odd.Slices, device.Known())
	if n.CPUs != nil || n.Unusable != "the CPU driver publishes no CPU that can be used" || n.Unsettled != "" {
		t.Errorf("%+v", n)
	}
	half := devicetest.Machines()["big"]
	if n := device.Of(half.Node, half.Slices[1:], device.Known()); n.Unsettled != "driver dra.cpu hasn't published all ResourceSlices of its pool big yet" {
		t.Errorf("%+v", n)
	}
	reserved := devicetest.New("r", 16).Publish("dra.cpu", 1, devicetest.Group("cpudevmachine", 14, nil))
	if n := device.Of(reserved.Node, reserved.Slices, device.Known()); n.CPUs != nil || !strings.Contains(n.Unusable, "doesn't say which CPUs it has") {
		t.Errorf("%+v", n)
	}
}

// FuzzOf reads whatever is published, and never gives a CPU to two cores.
func FuzzOf(f *testing.F) {
	f.Add(uint8(2), uint8(4), uint8(2), int64(3), "0-3,8-11", "v1:0-3>8", true)
	f.Add(uint8(0), uint8(0), uint8(0), int64(-1), "", "x", false)
	f.Fuzz(func(t *testing.T, sockets, cores, threads uint8, core int64, ids, layout string, grouped bool) {
		m := devicetest.New("n", 16)
		if grouped {
			m.Publish("dra.cpu", 1, devicetest.Group("g", int(threads), map[string]any{"dra.cpu/cpuIDs": ids, "dra.cpu/smtLayout": layout, "dra.cpu/smtEnabled": true}))
		} else {
			cpus := devicetest.Even(int(sockets%4), int(cores%8), int(threads%3))
			if len(cpus) > 0 {
				cpus[0].Core = int(core)
			}
			m.Individual(cpus)
		}
		n := device.Of(m.Node, m.Slices, device.Known())
		if n.CPUs == nil {
			return
		}
		var seen []int
		for _, c := range n.CPUs.Cores {
			for _, cpu := range c.CPUs {
				if cpu.ID >= 0 && slices.Contains(seen, cpu.ID) {
					t.Fatalf("CPU %d is in two cores", cpu.ID)
				}
				seen = append(seen, cpu.ID)
			}
		}
		if len(n.CPUs.Cores) != n.CPUs.Sockets*n.CPUs.CoresPerSocket {
			t.Fatalf("%dx%d with %d cores", n.CPUs.Sockets, n.CPUs.CoresPerSocket, len(n.CPUs.Cores))
		}
	})
}
