package cpuset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sharing says which containers may use a claim at the same time.
type Sharing string

const (
	// SharedByNone is the default: one container at a time.
	SharedByNone Sharing = ""
	// SharedByPod lets all containers of one pod run on the claim's CPUs.
	SharedByPod Sharing = "pod"
)

// Grant is what a claim gets of one device.
type Grant struct {
	// Request is the claim's name for it, with the subrequest if there is one.
	Request string     `json:"request"`
	Pool    string     `json:"pool"`
	Device  string     `json:"device"`
	ShareID *types.UID `json:"shareID,omitempty"`
	CPUs    Set        `json:"cpus"`
	// Memory is what it gets of a device of memory; then CPUs is empty.
	Memory *NodeMemory `json:"memory,omitempty"`
}

// Held are CPUs and memory that somebody has.
type Held struct {
	// Holder is a name for people, as in "claim default/x".
	Holder string       `json:"holder"`
	CPUs   Set          `json:"cpus"`
	Memory []NodeMemory `json:"memory,omitempty"`
}

// Machine is what a claim is resolved against.
type Machine struct {
	Topology Topology
	Exposure Exposure
	Pool     string // the node's
	Devices  []Device
}

// Resolve says which CPUs an allocated claim gets: those of its devices in
// individual mode; in grouped mode the exact set that its configuration names, or
// as many as it consumes, chosen by Pick. Results of other drivers are left out;
// a claim without any of ours gets no grants. Nothing that is held is given.
func (m Machine) Resolve(claim *resourceapi.ResourceClaim, held []Held) ([]Grant, Sharing, error) {
	if claim.Status.Allocation == nil {
		return nil, "", errors.New("the claim is not allocated")
	}
	r := resolver{Machine: m, held: held, free: m.Topology.All().Minus(m.Exposure.Reserved)}
	for _, h := range held {
		r.free = r.free.Minus(h.CPUs)
	}
	allocation := claim.Status.Allocation.Devices
	var err error
	if r.configs, err = readConfigs(allocation.Config); err != nil {
		return nil, "", err
	}
	r.markSplit(allocation.Results)
	for _, result := range allocation.Results {
		if result.Driver != DriverName {
			continue
		}
		grant, err := r.grant(result)
		if err != nil {
			return nil, "", fmt.Errorf("request %q, device %q: %w", result.Request, result.Device, err)
		}
		r.free = r.free.Minus(grant.CPUs)
		own := Held{Holder: fmt.Sprintf("request %q of the same claim", result.Request), CPUs: grant.CPUs}
		if grant.Memory != nil {
			own.Memory = []NodeMemory{*grant.Memory}
		}
		r.held = append(r.held, own)
		r.grants = append(r.grants, grant)
	}
	if err := r.allUsed(); err != nil {
		return nil, "", err
	}
	return r.grants, r.sharing, nil
}

// markSplit notes which configurations are for several devices: each then gets
// its own part of the set.
func (r *resolver) markSplit(results []resourceapi.DeviceRequestAllocationResult) {
	for _, c := range r.configs {
		n := 0
		for _, result := range results {
			if result.Driver == DriverName && c.covers(result.Request) && !r.isMemory(result.Device) {
				n++
			}
		}
		c.split = n > 1
	}
}

func (r *resolver) isMemory(device string) bool {
	return slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Name == device && d.Memory != nil })
}

type resolver struct {
	Machine
	free    Set
	held    []Held
	configs []*config
	grants  []Grant
	sharing Sharing
}

func (r *resolver) grant(result resourceapi.DeviceRequestAllocationResult) (Grant, error) {
	g := Grant{Request: result.Request, Pool: result.Pool, Device: result.Device, ShareID: result.ShareID}
	if result.Pool != r.Pool {
		return g, fmt.Errorf("it is of pool %q, and this node's is %q: the claim is for another node", result.Pool, r.Pool)
	}
	i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.Name == result.Device })
	if i < 0 {
		return g, r.unknownDevice(result.Device)
	}
	device := r.Devices[i]
	exact, err := r.configFor(result.Request)
	if err != nil {
		return g, err
	}
	if exact != nil {
		r.sharing = max(r.sharing, exact.sharing)
	}
	if device.Memory != nil {
		g.Memory, err = r.memory(result, device)
		return g, err
	}
	if r.Exposure.Mode == Individual {
		g.CPUs = device.CPUs
		return g, r.check(g.CPUs)
	}
	n, err := consumed(result)
	if err != nil {
		return g, err
	}
	switch {
	case exact != nil && exact.cpus != nil:
		g.CPUs, err = r.exact(exact, device, n)
	case r.Exposure.GroupBy == ByMachine:
		err = fmt.Errorf("the claim must name its CPUs by a configuration for driver %s: {apiVersion: v1alpha1, cpuConfig: {cpuset: ...}}", DriverName)
	default:
		free := r.free.Intersect(device.CPUs)
		if r.Exposure.WholeCores {
			free = wholeOf(r.Topology.GroupBy(byCore), free)
		}
		g.CPUs, err = Pick(r.Topology, free, n)
	}
	if err != nil || !r.Exposure.WholeCores {
		return g, err
	}
	if parts := g.CPUs.Minus(wholeOf(r.Topology.GroupBy(byCore), g.CPUs)); !parts.Empty() {
		err = fmt.Errorf("CPUs %s are parts of cores, and this node gives out whole ones (wholeCores): ask for a multiple of the threads of a core, and name all of them", parts)
	}
	return g, err
}

func (r *resolver) unknownDevice(name string) error {
	for _, d := range Devices(r.Topology, Exposure{Mode: r.Exposure.Mode, GroupBy: r.Exposure.GroupBy}) {
		if d.Name == name {
			return fmt.Errorf("its CPUs %s are reserved", d.CPUs)
		}
	}
	return fmt.Errorf("this node has no such device: it offers %s", offered(r.Devices))
}

func offered(devices []Device) string {
	switch n := len(devices); n {
	case 0:
		return "none"
	case 1:
		return devices[0].Name
	default:
		return fmt.Sprintf("%d, from %s to %s", n, devices[0].Name, devices[n-1].Name)
	}
}

// consumed is the whole number of CPUs that the scheduler has taken from a group.
func consumed(result resourceapi.DeviceRequestAllocationResult) (int, error) {
	q, ok := result.ConsumedCapacity[CapacityCPU]
	if !ok {
		return 0, fmt.Errorf("the allocation doesn't say how much of %s it consumes", CapacityCPU)
	}
	n, whole := q.AsInt64()
	if !whole || n <= 0 || n > MaxCPUs {
		return 0, fmt.Errorf("it consumes %s of %s: only a positive whole number of CPUs can be given", q.String(), CapacityCPU)
	}
	return int(n), nil
}

// exact takes a device's part of the set that the claim names.
func (r *resolver) exact(c *config, device Device, n int) (Set, error) {
	whole := c.left
	if !c.split {
		if outside := whole.Minus(device.CPUs); !outside.Empty() {
			return Set{}, r.outside(outside, device)
		}
	}
	cpus := whole.Intersect(device.CPUs)
	if cpus.Len() != n {
		return Set{}, fmt.Errorf("the claim names %d CPUs (%s) and consumes %d", cpus.Len(), cpus, n)
	}
	c.left = c.left.Minus(cpus)
	return cpus, r.check(cpus)
}

func (r *resolver) outside(cpus Set, device Device) error {
	if s := cpus.Minus(r.Topology.All()); !s.Empty() {
		return fmt.Errorf("the claim names CPUs that are not online: %s (online are %s)", s, r.Topology.All())
	}
	if s := cpus.Intersect(r.Exposure.Reserved); !s.Empty() {
		return fmt.Errorf("the claim names reserved CPUs: %s", s)
	}
	return fmt.Errorf("the claim names CPUs that are not of this device: %s (it has %s)", cpus, device.CPUs)
}

// check refuses CPUs that somebody has, by the holder's name.
func (r *resolver) check(cpus Set) error {
	for _, h := range r.held {
		if h.CPUs.Overlaps(cpus) {
			return fmt.Errorf("CPUs %s already belong to %s", h.CPUs.Intersect(cpus), h.Holder)
		}
	}
	return nil
}

// allUsed refuses a set of which no device took a part.
func (r *resolver) allUsed() error {
	for _, c := range r.configs {
		if r.Exposure.Mode != Individual && c.used > 0 && !c.left.Empty() {
			return fmt.Errorf("the claim names CPUs %s, which are of none of its devices", c.left)
		}
	}
	return nil
}

// config is a claim's opaque configuration for this driver.
type config struct {
	requests []string
	cpus     *Set
	left     Set // of cpus, what no result has taken yet
	split    bool
	used     int
	sharing  Sharing
}

func readConfigs(all []resourceapi.DeviceAllocationConfiguration) ([]*config, error) {
	var out []*config
	for i, c := range all {
		if c.Opaque == nil || c.Opaque.Driver != DriverName {
			continue
		}
		if c.Source != resourceapi.AllocationConfigSourceClaim {
			return nil, fmt.Errorf("configuration %d for %s comes from the device class: it must be in the claim, since it is about one claim's CPUs", i, DriverName)
		}
		parsed, err := parseConfig(c.Opaque.Parameters.Raw)
		if err != nil {
			return nil, fmt.Errorf("configuration %d for %s: %w", i, DriverName, err)
		}
		parsed.requests = c.Requests
		out = append(out, parsed)
	}
	return out, nil
}

func parseConfig(raw []byte) (*config, error) {
	var in struct {
		APIVersion string `json:"apiVersion"`
		CPUConfig  *struct {
			CPUSet  string  `json:"cpuset"`
			Sharing Sharing `json:"sharing"`
		} `json:"cpuConfig"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if in.APIVersion != "v1alpha1" {
		return nil, fmt.Errorf("apiVersion is %q, want v1alpha1", in.APIVersion)
	}
	if in.CPUConfig == nil || in.CPUConfig.CPUSet == "" && in.CPUConfig.Sharing == SharedByNone {
		return nil, errors.New("cpuConfig.cpuset is empty: name the CPUs, as in 2-5")
	}
	out := &config{sharing: in.CPUConfig.Sharing}
	if out.sharing != SharedByNone && out.sharing != SharedByPod {
		return nil, fmt.Errorf("cpuConfig.sharing is %q: leave it out, or say %q", out.sharing, SharedByPod)
	}
	if in.CPUConfig.CPUSet != "" {
		cpus, err := Parse(in.CPUConfig.CPUSet)
		if err != nil {
			return nil, fmt.Errorf("cpuConfig.cpuset: %w", err)
		}
		out.cpus, out.left = &cpus, cpus
	}
	return out, nil
}

// configFor finds the one configuration of a request.
func (r *resolver) configFor(request string) (*config, error) {
	var found *config
	for _, c := range r.configs {
		if !c.covers(request) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("more than one configuration for %s: leave one", DriverName)
		}
		found = c
	}
	if found != nil {
		found.used++
	}
	return found, nil
}

// covers: no names mean all requests, and a request's name also its subrequests.
func (c *config) covers(request string) bool {
	if len(c.requests) == 0 {
		return true
	}
	parent, _, _ := strings.Cut(request, "/")
	return slices.Contains(c.requests, request) || slices.Contains(c.requests, parent)
}
