package device

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// requestCPU is the name of the first request for CPUs.
const requestCPU = "cpu"

// cpus adds the CPUs of the granted cores, for each container as many as it asks for.
func (b *builder) cpus() error {
	name := resourceOfClass(DriverCPU)
	if b.node.CPUs == nil {
		why := "driver " + DriverCPU + " publishes no CPUs there"
		if b.node.Unusable != "" {
			why = b.node.Unusable
		}
		return fmt.Errorf("pod %s can't be given CPUs of node %s: %s", b.pod.Name, b.node.Name, why)
	}
	of := askers(b.pod, name)
	rest, err := b.cores()
	if err != nil {
		return err
	}
	// Containers share no core where there are enough.
	threads, needed := b.node.CPUs.Threads, 0
	for _, c := range of {
		if !c.brief {
			needed += (c.want + threads - 1) / threads
		}
	}
	whole := needed <= len(rest)
	var left []CPU
	next := 0
	take := func(n int) (part, error) {
		if whole {
			left = nil // what is left of the last core is nobody's
		}
		for len(left) < n && next < len(rest) {
			left = append(left, rest[next].CPUs...)
			next++
		}
		if len(left) < n {
			return part{}, fmt.Errorf("Slurm gave pod %s %d cores of node %s, which have too few CPUs for what its containers ask for",
				b.pod.Name, len(rest), b.node.Name)
		}
		mine := slices.Clone(left[:n])
		left = left[n:]
		return part{requests: b.addCPUs(mine), count: n}, nil
	}
	return divide(of, take, func(c container, p part) {
		for _, request := range p.requests {
			b.give(c, name, request)
		}
	})
}

// cores returns the granted cores, those near the chosen devices first.
func (b *builder) cores() ([]Core, error) {
	numbers := slices.Clone(b.grant.Cores)
	slices.SortStableFunc(numbers, func(x, y int) int { return distance(b.chosen, x) - distance(b.chosen, y) })
	var out []Core
	for _, i := range numbers {
		if i < 0 || i >= len(b.node.CPUs.Cores) || len(b.node.CPUs.Cores[i].CPUs) == 0 {
			return nil, fmt.Errorf("Slurm gave core %d of node %s, which its driver doesn't publish", i, b.node.Name)
		}
		if core := b.node.CPUs.Cores[i]; !slices.ContainsFunc(core.CPUs, b.spoken) {
			out = append(out, core)
		}
	}
	return out, nil
}

// spoken tells whether another claim of the pod has a CPU.
func (b *builder) spoken(c CPU) bool { return b.grant.Taken[cpuID(b.node.CPUs, c)] }

// cpuID names a CPU: by its device, or within the group that it is in.
func cpuID(of *CPUs, c CPU) ID {
	id := ID{DriverCPU, of.pool, c.Device}
	if of.Grouped {
		id.Device += "/" + strconv.Itoa(c.ID)
	}
	return id
}

// addCPUs writes requests for exact CPUs: one for single CPUs, or one for each group that they are in.
func (b *builder) addCPUs(cpus []CPU) []string {
	if !b.node.CPUs.Grouped {
		request := b.request(requestCPU)
		var devices []Device
		for _, c := range cpus {
			devices = append(devices, Device{Name: c.Device, index: c.ID})
		}
		b.add(request, DriverCPU, b.node.CPUs.pool, devices)
		return []string{request}
	}
	var requests, groups []string
	in := map[string][]int{}
	for _, c := range cpus {
		if _, ok := in[c.Device]; !ok {
			groups = append(groups, c.Device)
		}
		in[c.Device] = append(in[c.Device], c.ID)
	}
	for _, group := range groups {
		request := b.request(requestCPU)
		requests = append(requests, request)
		b.addGroup(request, group, in[group])
	}
	return requests
}

// addGroup takes CPUs out of a group, and tells the driver which.
func (b *builder) addGroup(request, group string, ids []int) {
	consumed := quantity(len(ids))
	b.out.Requests = append(b.out.Requests, resourcev1.DeviceRequest{Name: request, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: DriverCPU, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resourceQuantity{CapacityCPU: consumed}},
	}})
	share := shareID(b.pod.UID, request)
	d := &b.out.Allocation.Devices
	d.Results = append(d.Results, resourcev1.DeviceRequestAllocationResult{
		Request: request, Driver: DriverCPU, Pool: b.node.CPUs.pool, Device: group, ShareID: &share,
		ConsumedCapacity: map[resourcev1.QualifiedName]resourceQuantity{CapacityCPU: consumed},
	})
	if slices.Contains(ids, -1) {
		return // the driver chooses within the group
	}
	d.Config = append(d.Config, resourcev1.DeviceAllocationConfiguration{
		Source: resourcev1.AllocationConfigSourceClaim, Requests: []string{request},
		DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: DriverCPU, Parameters: runtime.RawExtension{Raw: cpuParameters(ids)},
		}},
	})
}

// parameters are the CPU driver's own.
type parameters struct {
	APIVersion string `json:"apiVersion"`
	CPUConfig  struct {
		CPUSet string `json:"cpuset"`
	} `json:"cpuConfig"`
}

func cpuParameters(ids []int) []byte {
	p := parameters{APIVersion: "v1alpha1"}
	p.CPUConfig.CPUSet = FormatSet(ids)
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings only
	}
	return text
}

// shareID identifies a pod's part of a device that many may use. It is always the same,
// so that what was written before a crash is known again.
func shareID(pod types.UID, request string) types.UID {
	h := sha256.Sum256([]byte(string(pod) + "/" + request))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}
