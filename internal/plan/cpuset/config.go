package cpuset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Sharing says which containers may use a claim at the same time.
type Sharing string

const (
	// SharedByNone is the default: one container at a time.
	SharedByNone Sharing = ""
	// SharedByPod lets all containers of one pod run on the claim's CPUs.
	SharedByPod Sharing = "pod"
)

// Terms are what a claim's configuration says of the containers that use it.
type Terms struct {
	Sharing Sharing `json:"sharing,omitempty"`
	// WithShared lets them run on the CPUs of containers without a claim, too.
	WithShared bool `json:"withShared,omitempty"`
}

func (t Terms) plus(o Terms) Terms {
	return Terms{max(t.Sharing, o.Sharing), t.WithShared || o.WithShared}
}

// nearDevices asks for CPUs near to the claim's other devices.
const nearDevices = "devices"

// parameters is the form of a claim's opaque configuration for this driver.
type parameters struct {
	APIVersion string     `json:"apiVersion"`
	CPUConfig  *cpuConfig `json:"cpuConfig"`
}

type cpuConfig struct {
	CPUSet     string  `json:"cpuset,omitempty"`
	Sharing    Sharing `json:"sharing,omitempty"`
	WithShared bool    `json:"withShared,omitempty"`
	Spread     Spread  `json:"spread,omitempty"`
	Near       string  `json:"near,omitempty"`
}

// config is one that was read.
type config struct {
	requests []string
	cpus     *Set
	left     Set // of cpus, what no result has taken yet
	split    bool
	used     int
	terms    Terms
	spread   Spread
	near     bool
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
	var in parameters
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if in.APIVersion != "v1alpha1" {
		return nil, fmt.Errorf("apiVersion is %q, want v1alpha1", in.APIVersion)
	}
	if in.CPUConfig == nil || *in.CPUConfig == (cpuConfig{}) {
		return nil, errors.New("cpuConfig.cpuset is empty: name the CPUs, as in 2-5")
	}
	c := *in.CPUConfig
	out := &config{terms: Terms{c.Sharing, c.WithShared}, spread: c.Spread, near: c.Near == nearDevices}
	switch {
	case c.Sharing != SharedByNone && c.Sharing != SharedByPod:
		return nil, fmt.Errorf("cpuConfig.sharing is %q: leave it out, or say %q", c.Sharing, SharedByPod)
	case c.Spread != "" && !slices.Contains(spreads(), c.Spread):
		return nil, fmt.Errorf("cpuConfig.spread is %q: leave it out, or say one of %q", c.Spread, spreads())
	case c.Near != "" && !out.near:
		return nil, fmt.Errorf("cpuConfig.near is %q: leave it out, or say %q", c.Near, nearDevices)
	case c.CPUSet != "" && (c.Spread != "" || out.near):
		return nil, errors.New("cpuConfig.cpuset names the CPUs, so spread and near have nothing to choose: leave them out")
	}
	if c.CPUSet != "" {
		cpus, err := Parse(c.CPUSet)
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

// WantsNear tells whether an allocated claim asks for CPUs near to its other devices. One that can't be read is refused by Resolve.
func WantsNear(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	configs, err := readConfigs(claim.Status.Allocation.Devices.Config)
	return err == nil && slices.ContainsFunc(configs, func(c *config) bool { return c.near })
}

// Exactly is the claim as if it named these CPUs, on the terms that it has, so that they are checked as any others.
func Exactly(claim *resourceapi.ResourceClaim, cpus Set) (*resourceapi.ResourceClaim, error) {
	out := claim.DeepCopy()
	devices := &out.Status.Allocation.Devices
	configs, err := readConfigs(devices.Config)
	if err != nil {
		return nil, err
	}
	var terms Terms
	for _, c := range configs {
		terms = terms.plus(c.terms)
	}
	raw, err := json.Marshal(parameters{"v1alpha1", &cpuConfig{CPUSet: cpus.String(), Sharing: terms.Sharing, WithShared: terms.WithShared}})
	if err != nil {
		return nil, err
	}
	devices.Config = slices.DeleteFunc(devices.Config, func(c resourceapi.DeviceAllocationConfiguration) bool {
		return c.Opaque != nil && c.Opaque.Driver == DriverName
	})
	c := resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClaim}
	c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: DriverName}
	c.Opaque.Parameters.Raw = raw
	devices.Config = append(devices.Config, c)
	return out, nil
}
