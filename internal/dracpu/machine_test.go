package dracpu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/testr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// numa is a machine of n CPUs in two nodes, each with half of them, in the grouped mode.
func numa(n int, reserved string) cpuset.Machine {
	top := cpuset.Topology{}
	for id := range n {
		node := id * 2 / n
		top.CPUs = append(top.CPUs, cpuset.CPU{ID: id, Socket: node, NUMA: node, CoreID: id, Core: id, L3: node, Type: cpuset.Standard})
	}
	e := cpuset.Exposure{Mode: cpuset.Grouped, GroupBy: cpuset.ByNUMANode, Reserved: set(reserved)}
	return cpuset.Machine{Topology: top, Exposure: e, Pool: "node-1", Devices: cpuset.Devices(top, e)}
}

func set(list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}

// on is an allocated claim for n CPUs of a NUMA node; an exact set is optional.
func on(uid string, node, n int, exact string) *resourceapi.ResourceClaim {
	rc := &resourceapi.ResourceClaim{}
	rc.UID, rc.Namespace, rc.Name = types.UID(uid), "default", "claim-"+uid
	rc.Status.Allocation = &resourceapi.AllocationResult{}
	d := &rc.Status.Allocation.Devices
	d.Results = []resourceapi.DeviceRequestAllocationResult{{
		Request: "cpu", Driver: cpuset.DriverName, Pool: "node-1", Device: fmt.Sprintf("cpudevnuma%03d", node),
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{cpuset.CapacityCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)},
	}}
	if exact != "" {
		d.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim}}
		d.Config[0].Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: cpuset.DriverName,
			Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":%q}}`, exact)}}
	}
	return rc
}

func reservedFor(rc *resourceapi.ResourceClaim, pods ...types.UID) *resourceapi.ResourceClaim {
	for _, p := range pods {
		rc.Status.ReservedFor = append(rc.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(p), UID: p})
	}
	return rc
}

// disk is a node's folders, which outlive the driver.
type disk struct{ data, cdi string }

func newDisk(t *testing.T) disk {
	dir := t.TempDir()
	d := disk{filepath.Join(dir, "data"), filepath.Join(dir, "cdi")}
	for _, dir := range []string{d.data, d.cdi} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// start is a new run of the driver on the disk.
func (d disk) start(t *testing.T, boot string, m cpuset.Machine) *ledger {
	t.Helper()
	l := newLedger(d.data, d.cdi, boot, m, 0)
	if err := l.load(testr.New(t)); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *ledger) all() map[types.UID]string {
	out := map[types.UID]string{}
	for _, c := range l.sorted() {
		out[c.UID] = c.cpus().String()
	}
	return out
}

func prepareOne(l *ledger, rc *resourceapi.ResourceClaim) (*claim, error) {
	o := l.prepare(nil, rc)[0]
	return o.claim, o.err
}

func prepared(t *testing.T, l *ledger, rc *resourceapi.ResourceClaim) string {
	t.Helper()
	c, err := prepareOne(l, rc)
	if err != nil {
		t.Fatalf("prepare %s: %v", rc.Name, err)
	}
	return c.cpus().String()
}
