package devicetest

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Divisible publishes GPUs of driver gpu.nvidia.com, of four slices each, with all parts that they can have.
func Divisible(m *Machine, gpus int) *Machine {
	slices := func(gpu int, n string) []resourcev1.DeviceCounterConsumption {
		return []resourcev1.DeviceCounterConsumption{{CounterSet: fmt.Sprintf("gpu-%d", gpu), Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse(n)}}}}
	}
	var devices []resourcev1.Device
	var sets []resourcev1.CounterSet
	for g := range gpus {
		sets = append(sets, resourcev1.CounterSet{Name: fmt.Sprintf("gpu-%d", g), Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse("4")}}})
		devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", g), ConsumesCounters: slices(g, "4"),
			Attributes: Attributes(map[string]any{"type": "gpu"})})
		part := func(profile, n string, at int) {
			devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d-mig-%s-%d", g, n, at), ConsumesCounters: slices(g, n),
				Attributes: Attributes(map[string]any{"type": "mig", "profile": profile})})
		}
		for at := range 4 {
			part("1g.5gb", "1", at)
		}
		part("2g.10gb", "2", 0)
		part("2g.10gb", "2", 2)
	}
	m.Publish("gpu.nvidia.com", 1, devices...)
	counters := m.Slices[len(m.Slices)-1].DeepCopy()
	counters.Name += "-counters"
	counters.Spec.Devices, counters.Spec.SharedCounters = nil, sets
	m.Slices = append(m.Slices, counters)
	for _, s := range m.Slices[len(m.Slices)-2:] {
		s.Spec.Pool.ResourceSliceCount = 2
	}
	return m
}
