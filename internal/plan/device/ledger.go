package device

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Holder is what a claim has of the machines' devices.
type Holder struct {
	UID             types.UID
	Namespace, Name string
	Allocation      *resourcev1.AllocationResult
}

// HolderOf returns what a claim has, false if it has nothing.
func HolderOf(c *resourcev1.ResourceClaim) (Holder, bool) {
	return Holder{c.UID, c.Namespace, c.Name, c.Status.Allocation}, c.Status.Allocation != nil
}

// Conflict tells which of the holders has a device, or a CPU of a group, that is also
// in an allocation; false if none has. Slurm gives nothing twice, but it doesn't
// know of claims that others allocated, or that are left behind.
func Conflict(a resourcev1.AllocationResult, holders []Holder) (Holder, string, bool) {
	type id struct{ driver, pool, device string }
	mine := map[id]bool{}
	for _, r := range a.Devices.Results {
		if r.ShareID == nil && !looks(r) {
			mine[id{r.Driver, r.Pool, r.Device}] = true
		}
	}
	sets := cpusIn(a)
	for _, h := range holders {
		for _, r := range h.Allocation.Devices.Results {
			if !looks(r) && mine[id{r.Driver, r.Pool, r.Device}] {
				return h, "device " + r.Device, true
			}
		}
		for where, theirs := range cpusIn(*h.Allocation) {
			for _, cpu := range theirs {
				if slices.Contains(sets[where], cpu) {
					return h, fmt.Sprintf("CPU %d", cpu), true
				}
			}
		}
	}
	return Holder{}, "", false
}

// looks tells of a device that is looked at, beside those who use it.
func looks(r resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

// cpusIn returns the CPUs that an allocation takes out of groups, by pool.
func cpusIn(a resourcev1.AllocationResult) map[string][]int {
	pools := map[string]string{}
	for _, r := range a.Devices.Results {
		if r.Driver == DriverCPU && !looks(r) {
			pools[r.Request] = r.Pool
		}
	}
	out := map[string][]int{}
	for _, c := range a.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != DriverCPU {
			continue
		}
		var p parameters
		if json.Unmarshal(c.Opaque.Parameters.Raw, &p) != nil {
			continue
		}
		ids, err := ParseSet(p.CPUConfig.CPUSet)
		if err != nil {
			continue
		}
		for request, pool := range pools {
			if len(c.Requests) == 0 || slices.Contains(c.Requests, request) {
				out[pool] = append(out[pool], ids...)
			}
		}
	}
	return out
}

// Take adds what an allocation has to devices that are spoken for: devices, and CPUs within groups.
func Take(a resourcev1.AllocationResult, into map[ID]bool) {
	for _, r := range a.Devices.Results {
		if r.ShareID == nil && !looks(r) {
			into[ID{r.Driver, r.Pool, r.Device}] = true
		}
	}
	cpus := cpusIn(a)
	for _, r := range a.Devices.Results {
		if r.Driver != DriverCPU || r.ShareID == nil || looks(r) {
			continue
		}
		for _, id := range cpus[r.Pool] {
			into[ID{DriverCPU, r.Pool, r.Device + "/" + strconv.Itoa(id)}] = true
		}
	}
}
