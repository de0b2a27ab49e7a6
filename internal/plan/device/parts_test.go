package device_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/device/devicetest"
	"github.com/slinky-hpc/slinky/slurm"
)

func TestParts(t *testing.T) {
	for parts, want := range map[string]string{
		"":                           "gpu:gpu.nvidia.com:2",
		"mig-1g.5gb=4":               "gpu:gpu.nvidia.com:1,gpu:mig-1g.5gb:4",
		"mig-2g.10gb=1,mig-1g.5gb=2": "gpu:gpu.nvidia.com:1,gpu:mig-1g.5gb:2,gpu:mig-2g.10gb:1",
		"mig-1g.5gb=99":              "gpu:mig-1g.5gb:8",
		"mig-9g=1, nonsense":         "gpu:gpu.nvidia.com:2",
	} {
		t.Run(parts, func(t *testing.T) {
			m := devicetest.Divisible(devicetest.New("n", 8), 2)
			m.Node.Annotations["scheduler.slinky.slurm.net/device-parts"] = parts
			n := device.Of(m.Node, m.Slices, device.Known())
			if got, _ := device.GRES(n.Resources); got != want || n.Unsettled != "" {
				t.Errorf("got %q (%s), want %q", got, n.Unsettled, want)
			}
			// What overlaps with what is registered can't be chosen, what is registered is whole.
			share := n.ShareOf(m.Slices, n.Whole(), device.Known())
			count := 0
			for _, r := range n.Resources {
				count += r.Count
			}
			if len(share.Withheld) != 0 || len(share.Hidden) != 14-count {
				t.Errorf("%d withheld, %d of 14 hidden, %d registered", len(share.Withheld), len(share.Hidden), count)
			}
		})
	}
}

func TestTypesByAttribute(t *testing.T) {
	card := func(i int, model string) resourcev1.Device {
		d := devicetest.GPU(i, 0)
		d.Attributes["model"] = resourcev1.DeviceAttribute{StringValue: &model}
		return d
	}
	m := devicetest.New("n", 8).Publish("gpu.example.com", 1, card(0, "big"), card(3, "small one"), card(5, "big"), card(7, ""))
	n := device.Of(m.Node, m.Slices, device.Drivers{"gpu.example.com": "gpu:model"})
	if got, _ := device.GRES(n.Resources); got != "gpu:gpu.example.com:1,gpu:big:2,gpu:small_one:1" {
		t.Error(got)
	}
	// Slurm numbers the devices of a name through all types: 0 is gpu-7, 1 and 2 are big, 3 is small.
	share := n.ShareOf(m.Slices, device.Grant{GRES: []slurm.GRESAllocation{{Name: "gpu", Type: "big", Count: 1, Indexes: []int{2}}}}, device.Drivers{"gpu.example.com": "gpu:model"})
	var withheld []string
	for _, id := range share.Withheld {
		withheld = append(withheld, id.Device)
	}
	if d := cmp.Diff([]string{"gpu-0", "gpu-3", "gpu-7"}, withheld); d != "" {
		t.Error(d)
	}
}

// TestTogether: a pod that has more than it needs gets a GPU and a card of one root, and cores near them.
func TestTogether(t *testing.T) {
	near := func(name string, index, numa int, root string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: devicetest.Attributes(map[string]any{
			"index": index, "resource.kubernetes.io/numaNode": numa, "resource.kubernetes.io/pcieRoot": root})}
	}
	drivers := device.Drivers{"gpu.example.com": "gpu", "dra.net": "nic"}
	m := devicetest.New("n", 8).Individual(devicetest.Even(2, 2, 2)).
		Publish("gpu.example.com", 1, near("gpu-0", 0, 0, "pci0"), near("gpu-1", 1, 1, "pci2"), near("gpu-2", 2, 1, "pci3")).
		Publish("dra.net", 1, near("nic-0", 0, 1, "pci3"))
	n := device.Of(m.Node, m.Slices, drivers)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"deviceclass.resource.kubernetes.io/gpu.example.com": resource.MustParse("1"),
		"deviceclass.resource.kubernetes.io/dra.net":         resource.MustParse("1"),
		"deviceclass.resource.kubernetes.io/dra.cpu":         resource.MustParse("2"),
	}}}}}}
	c, err := device.Extended(pod, n, n.Whole(), drivers)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range c.Allocation.Devices.Results {
		got = append(got, r.Request+":"+r.Device)
	}
	// Socket 1 has CPUs 2, 3 and their siblings 6, 7.
	if d := cmp.Diff([]string{"nic:nic-0", "gpu:gpu-2", "cpu:cpudev002", "cpu:cpudev006"}, got); d != "" {
		t.Error(d)
	}
}

func TestAgree(t *testing.T) {
	offer := func(node string, choice int, types int, gres string, count int64) device.Offer {
		return device.Offer{Node: node, Choice: []int{choice}, Demand: device.Demand{GRES: map[string]int64{gres: count}}, Types: map[string]int{"gpu": types}}
	}
	for name, c := range map[string]struct {
		offers []device.Offer
		want   map[string]int64
		except int
	}{
		"none":                    {nil, nil, 0},
		"alike":                   {[]device.Offer{offer("a", 0, 1, "gres/gpu:x", 2), offer("b", 0, 1, "gres/gpu:x", 2)}, map[string]int64{"gres/gpu:x": 2}, 0},
		"the first alternative":   {[]device.Offer{offer("a", 1, 1, "gres/gpu:x", 1), offer("b", 1, 1, "gres/gpu:x", 1), offer("c", 0, 1, "gres/gpu:y", 2)}, map[string]int64{"gres/gpu:y": 2}, 2},
		"any type":                {[]device.Offer{offer("a", 0, 1, "gres/gpu:x", 1), offer("b", 0, 1, "gres/gpu:y", 1)}, map[string]int64{"gres/gpu": 1}, 0},
		"several types on a node": {[]device.Offer{offer("a", 0, 2, "gres/gpu:x", 1), offer("b", 0, 1, "gres/gpu:y", 1)}, map[string]int64{"gres/gpu:x": 1}, 1},
		"most nodes":              {[]device.Offer{offer("a", 0, 1, "gres/gpu:x", 8), offer("b", 0, 1, "gres/gpu:x", 4), offer("c", 0, 1, "gres/gpu:x", 4)}, map[string]int64{"gres/gpu:x": 4}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, except := device.Agree(c.offers)
			if d := cmp.Diff(c.want, got.GRES); d != "" || len(except) != c.except {
				t.Errorf("%s; %v are left out", d, except)
			}
		})
	}
}
