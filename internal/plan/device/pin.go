package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Near returns the cores of a grant, those near some devices first.
func (n Node) Near(g Grant, results []resourcev1.DeviceRequestAllocationResult) Grant {
	if n.CPUs == nil {
		return g
	}
	var chosen []Device
	for _, r := range n.Resources {
		for _, d := range r.Devices {
			if slices.ContainsFunc(results, func(x resourcev1.DeviceRequestAllocationResult) bool {
				return x.Driver == r.driver && x.Pool == r.pool && x.Device == d.Name
			}) {
				chosen = append(chosen, d)
			}
		}
	}
	g.Cores = slices.Clone(g.Cores)
	slices.SortStableFunc(g.Cores, func(x, y int) int { return distance(chosen, x) - distance(chosen, y) })
	return g
}

// distance is 0 for a core near one of some devices, else 1.
func distance(devices []Device, core int) int {
	for _, d := range devices {
		if d.First >= 0 && core >= d.First && core <= d.Last {
			return 0
		}
	}
	return 1
}

// Pin says in allocations of CPUs out of groups which CPUs of a grant they are.
func (n Node) Pin(g Grant, allocations []resourcev1.AllocationResult) error {
	if n.CPUs == nil || !n.CPUs.Grouped {
		return nil
	}
	left := map[string][]Core{}
	for _, i := range n.cores(g) {
		core := n.CPUs.Cores[i]
		left[core.CPUs[0].Device] = append(left[core.CPUs[0].Device], core)
	}
	for i := range allocations {
		d := &allocations[i].Devices
		for _, r := range d.Results {
			q, group := r.ConsumedCapacity[CapacityCPU]
			if r.Driver != DriverCPU || !group || r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			want := int(q.Value())
			var ids []int
			for len(ids) < want && len(left[r.Device]) > 0 {
				core := left[r.Device][0]
				left[r.Device] = left[r.Device][1:]
				for t, c := range core.CPUs {
					if len(ids) == want {
						// What is left of a core is for the next request, if cores are short.
						left[r.Device] = append(left[r.Device], Core{CPUs: core.CPUs[t:], place: core.place})
						break
					}
					ids = append(ids, c.ID)
				}
			}
			if len(ids) < want {
				return fmt.Errorf("of the cores that Slurm gave, %d CPUs are in %s, and request %s needs %d", len(ids), r.Device, r.Request, want)
			}
			if slices.Contains(ids, -1) {
				continue // the driver chooses within the group
			}
			slices.Sort(ids)
			if err := setCPUs(d, r.Request, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// setCPUs puts CPUs into the one configuration that the CPU driver gets for a request.
func setCPUs(d *resourcev1.DeviceAllocationResult, request string, ids []int) error {
	config := map[string]json.RawMessage{"apiVersion": json.RawMessage(`"v1alpha1"`)}
	cpu := map[string]any{}
	var rest []resourcev1.DeviceAllocationConfiguration
	parent, _, _ := strings.Cut(request, "/")
	for _, c := range d.Config {
		mine := c.Opaque != nil && c.Opaque.Driver == DriverCPU &&
			(len(c.Requests) == 0 || slices.Contains(c.Requests, request) || slices.Contains(c.Requests, parent))
		if !mine {
			rest = append(rest, c)
			continue
		}
		if err := errors.Join(json.Unmarshal(c.Opaque.Parameters.Raw, &config), json.Unmarshal(config["cpuConfig"], &cpu)); err != nil {
			return fmt.Errorf("the configuration of request %s for driver %s can't be read: %w", request, DriverCPU, err)
		}
		if _, named := cpu["cpuset"]; named {
			return fmt.Errorf("the configuration of request %s names its CPUs; Slurm chooses them: leave cpuConfig.cpuset out", request)
		}
		if by, asked := cpu["spread"]; asked {
			return fmt.Errorf("the configuration of request %s spreads its CPUs over each %v; Slurm chooses the cores: leave cpuConfig.spread out", request, by)
		}
		delete(cpu, "near") // the cores near the devices are taken first as it is
		rest = append(rest, others(c, request, *d)...)
	}
	cpu["cpuset"] = FormatSet(ids)
	text, err := json.Marshal(cpu)
	if err != nil {
		return fmt.Errorf("configuration of request %s: %w", request, err)
	}
	config["cpuConfig"] = text
	if text, err = json.Marshal(config); err != nil {
		return fmt.Errorf("configuration of request %s: %w", request, err)
	}
	d.Config = append(rest, resourcev1.DeviceAllocationConfiguration{
		Source: resourcev1.AllocationConfigSourceClaim, Requests: []string{request},
		DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: DriverCPU, Parameters: runtime.RawExtension{Raw: text},
		}},
	})
	return nil
}

// others returns what is left of a configuration without one request: for each other
// request that it is for, and that hasn't its own yet, the same.
func others(c resourcev1.DeviceAllocationConfiguration, request string, d resourcev1.DeviceAllocationResult) []resourcev1.DeviceAllocationConfiguration {
	var requests []string
	for _, r := range d.Results {
		parent, _, _ := strings.Cut(r.Request, "/")
		if r.Driver == DriverCPU && r.Request != request && !slices.Contains(requests, r.Request) &&
			(len(c.Requests) == 0 || slices.Contains(c.Requests, r.Request) || slices.Contains(c.Requests, parent)) && !pinned(d, r.Request) {
			requests = append(requests, r.Request)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	c.Requests = requests
	return []resourcev1.DeviceAllocationConfiguration{c}
}

// pinned tells whether a request has a configuration of its own that names CPUs.
func pinned(d resourcev1.DeviceAllocationResult, request string) bool {
	return slices.ContainsFunc(d.Config, func(c resourcev1.DeviceAllocationConfiguration) bool {
		var p parameters
		return c.Opaque != nil && c.Opaque.Driver == DriverCPU && slices.Equal(c.Requests, []string{request}) &&
			json.Unmarshal(c.Opaque.Parameters.Raw, &p) == nil && p.CPUConfig.CPUSet != ""
	})
}
