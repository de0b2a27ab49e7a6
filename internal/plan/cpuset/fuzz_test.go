package cpuset

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// Whatever a claim's configuration says, no CPU is given that isn't the device's and free.
func FuzzConfiguration(f *testing.F) {
	for _, s := range []string{
		`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"4-5"}}`, `{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"0-1","sharing":"pod"}}`,
		`{"apiVersion":"v1alpha1","cpuConfig":{"spread":"core","near":"devices","withShared":true}}`, `{"apiVersion":"v1alpha1","cpuConfig":{}}`,
		`{"apiVersion":"v1","cpuConfig":{"cpuset":"4-5"}}`, `{"apiVersion":"v1alpha1"}`, `{`, ``, `[]`, `{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"4-5","x":1}}`,
	} {
		f.Add([]byte(s), int64(2))
	}
	m := machine(shape{"", 2, 2, 2, 8, 1, true, true, false}, Exposure{Mode: Grouped, GroupBy: ByNUMANode, Reserved: Of(7)})
	m.Near = Of(0, 5, 6, 7)
	f.Fuzz(func(t *testing.T, config []byte, n int64) {
		rc := allocatedAs(asks("cpu", "cpudevnuma001", nil))
		rc.Status.Allocation.Devices.Results[0].Pool = m.Pool
		rc.Status.Allocation.Devices.Results[0].ConsumedCapacity[CapacityCPU] = *quantity(int(n))
		rc.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim}}
		o := &resourceapi.OpaqueDeviceConfiguration{Driver: DriverName}
		o.Parameters.Raw = config
		rc.Status.Allocation.Devices.Config[0].Opaque = o
		got, _, err := m.Resolve(rc, []Held{{Holder: "claim a/b", CPUs: Of(6)}})
		if err == nil && (len(got) != 1 || got[0].CPUs.Len() != int(n) || !got[0].CPUs.Within(Of(4, 5))) {
			t.Errorf("%s for %d CPUs gives %+v", config, n, got)
		}
	})
}
