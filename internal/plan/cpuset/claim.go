package cpuset

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// Near are the CPUs near to the claim's other devices, for one that asks for that.
	Near Set
}

// Resolve says which CPUs an allocated claim gets: those of its devices in
// individual mode; in grouped mode the exact set that its configuration names, or
// as many as it consumes, chosen by Pick. Results of other drivers are left out;
// a claim without any of ours gets no grants. Nothing that is held is given.
func (m Machine) Resolve(claim *resourceapi.ResourceClaim, held []Held) ([]Grant, Terms, error) {
	if claim.Status.Allocation == nil {
		return nil, Terms{}, errors.New("the claim is not allocated")
	}
	r := resolver{Machine: m, held: held, free: m.Topology.All().Minus(m.Exposure.Reserved)}
	for _, h := range held {
		r.free = r.free.Minus(h.CPUs)
	}
	allocation := claim.Status.Allocation.Devices
	var err error
	if r.configs, err = readConfigs(allocation.Config); err != nil {
		return nil, Terms{}, err
	}
	r.markSplit(allocation.Results)
	for _, result := range allocation.Results {
		if result.Driver != DriverName {
			continue
		}
		grant, err := r.grant(result)
		if err != nil {
			return nil, Terms{}, fmt.Errorf("request %q, device %q: %w", result.Request, result.Device, err)
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
		return nil, Terms{}, err
	}
	return r.grants, r.terms, nil
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
	terms   Terms
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
	c, err := r.configFor(result.Request)
	if err != nil {
		return g, err
	}
	if c != nil {
		r.terms = r.terms.plus(c.terms)
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
	case c != nil && c.cpus != nil:
		g.CPUs, err = r.exact(c, device, n)
	case r.Exposure.Named || r.Exposure.GroupBy == ByMachine && (c == nil || c.spread == "" && !c.near):
		err = fmt.Errorf("the claim must name its CPUs by a configuration for driver %s: {apiVersion: v1alpha1, cpuConfig: {cpuset: ...}}%s", DriverName, map[bool]string{false: ", or how they are chosen, by spread or near"}[r.Exposure.Named])
	default:
		g.CPUs, err = r.choose(c, device, n)
	}
	if err != nil || !r.Exposure.WholeCores {
		return g, err
	}
	if parts := g.CPUs.Minus(wholeOf(r.Topology.GroupBy(byCore), g.CPUs)); !parts.Empty() {
		err = fmt.Errorf("CPUs %s are parts of cores, and this node gives out whole ones (wholeCores): ask for a multiple of the threads of a core, and name all of them", parts)
	}
	return g, err
}

// choose picks n free CPUs of a device, as the claim's configuration says; c may be nil.
func (r *resolver) choose(c *config, device Device, n int) (Set, error) {
	free, whole := r.free.Intersect(device.CPUs), func(s Set) Set { return s }
	if r.Exposure.WholeCores {
		cores := r.Topology.GroupBy(byCore)
		whole = func(s Set) Set { return wholeOf(cores, s) }
	}
	free = whole(free)
	if c == nil {
		return Pick(r.Topology, free, n)
	}
	if c.spread == OverCores && r.Exposure.WholeCores {
		return Set{}, fmt.Errorf("the claim is to be spread over cores, and this node gives out whole ones (wholeCores): leave cpuConfig.spread out")
	}
	near := Set{}
	if c.near {
		near = whole(free.Intersect(r.Near))
	}
	switch rest := n - near.Len(); {
	case near.Empty() || n > free.Len():
		return chooseOf(r.Topology, free, n, c.spread)
	case rest <= 0:
		return chooseOf(r.Topology, near, n, c.spread)
	default: // All that are near, and as many others as it takes.
		far, err := chooseOf(r.Topology, free.Minus(near), rest, c.spread)
		return near.Union(far), err
	}
}

func chooseOf(t Topology, free Set, n int, by Spread) (Set, error) {
	if by == "" {
		return Pick(t, free, n)
	}
	return PickSpread(t, free, n, by)
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
