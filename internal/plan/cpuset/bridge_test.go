package cpuset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// What the bridge reads of the published devices and writes into a claim for Slurm's
// cores comes back as exactly these cores' CPUs, on each machine, in each mode.
// CPU checks 38 and 51.
func TestWhatTheBridgeWrites(t *testing.T) {
	for _, s := range shapes() {
		for _, e := range exposures(Set{}) {
			if e.GroupBy == ByL3Cache && !s.l3 {
				continue
			}
			t.Run(fmt.Sprintf("%s %s %s", s.name, e.Mode, e.GroupBy), func(t *testing.T) { bridgeWrites(t, machine(s, e)) })
		}
	}
}

func bridgeWrites(t *testing.T, m Machine) {
	all := m.Topology.All().Len()
	cpu := *resource.NewQuantity(int64(all), resource.DecimalSI)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Pool}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: cpu}
	node.Status.Allocatable = node.Status.Capacity
	var published []*resourceapi.ResourceSlice
	lists := Slices(m.Devices, m.Exposure)
	for i, devices := range lists {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}}
		s.Spec = resourceapi.ResourceSliceSpec{Driver: DriverName, NodeName: &m.Pool, Devices: devices,
			Pool: resourceapi.ResourcePool{Name: m.Pool, Generation: 1, ResourceSliceCount: int64(len(lists))}}
		published = append(published, s)
	}
	n := device.Of(node, published, device.Known())
	if n.CPUs == nil || n.CPUs.Count() != all {
		t.Fatalf("the bridge sees %+v (%s), want %d CPUs", n.CPUs, n.Unusable, all)
	}
	r := rand.New(rand.NewPCG(5, uint64(all)))
	for range 20 {
		var cores []int
		var want Set
		for i, c := range n.CPUs.Cores {
			if want.Len()+len(c.CPUs) > 32 && m.Exposure.Mode == Individual || r.IntN(3) > 0 && len(cores) > 0 {
				continue // a claim has at most 32 devices
			}
			cores = append(cores, i)
			for _, c := range c.CPUs {
				want = want.Union(Of(c.ID))
			}
		}
		got := granted(t, m, n, cores, want.Len())
		if !got.Equal(want) {
			t.Fatalf("Slurm gave cores %v, which are CPUs %s, and the container gets %s", cores, want, got)
		}
	}
}

func granted(t *testing.T, m Machine, n device.Node, cores []int, cpus int) Set {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + DriverName): *resource.NewQuantity(int64(cpus), resource.DecimalSI),
	}
	written, err := device.Extended(pod, n, device.Grant{Cores: cores}, device.Known())
	if err != nil {
		t.Fatalf("cores %v, %d CPUs: %v", cores, cpus, err)
	}
	rc := &resourceapi.ResourceClaim{}
	rc.Status.Allocation = &written.Allocation
	grants, _, err := m.Resolve(rc, nil)
	if err != nil {
		t.Fatalf("cores %v: %v", cores, err)
	}
	var got Set
	for _, g := range grants {
		got = got.Union(g.CPUs)
	}
	return got
}
