package config

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
)

// Nodes is the part of the configuration about nodes and their devices.
type Nodes struct {
	// ManagedSlurmdNodes is which nodes that run a slurmd, and so aren't external, are
	// managed where a Kubernetes node has their name: Partition, the default, for those in
	// the bridge's partition, All for all of them as published, or None.
	ManagedSlurmdNodes string `json:"managedSlurmdNodes"`
	// SinkSlurmd is address:port of any live slurmd of the cluster. It answers what
	// slurmctld sends to external nodes, which is lost otherwise and makes Slurm give the node up.
	SinkSlurmd string `json:"sinkSlurmd"`
	// DeviceDrivers are more DRA drivers whose devices are registered with nodes, each
	// with the name of Slurm's generic resource, as "nic". "gpu:model" makes types of the
	// devices by their attribute model, instead of the one type that is the driver.
	DeviceDrivers map[string]string `json:"deviceDrivers"`
}

// Shared returns which nodes with a slurmd are managed.
func (n Nodes) Shared() mirror.Shared {
	if n.ManagedSlurmdNodes == "" {
		return mirror.SharedInPartition
	}
	return mirror.Shared(n.ManagedSlurmdNodes)
}

// Sink returns where the slurmd that answers for external nodes is.
func (n Nodes) Sink() (netip.AddrPort, bool) {
	a, err := netip.ParseAddrPort(n.SinkSlurmd)
	return a, err == nil && a.Port() > 0
}

// Drivers returns the DRA drivers whose devices are Slurm's generic resources.
func (n Nodes) Drivers() device.Drivers {
	d := device.Known()
	maps.Copy(d, n.DeviceDrivers)
	return d
}

var gresName = regexp.MustCompile(`^[a-z][a-z0-9_]*(:[A-Za-z_][A-Za-z0-9_]*)?$`)

func (n Nodes) check() []error {
	var errs []error
	switch n.Shared() {
	case mirror.SharedInPartition, mirror.SharedAll, mirror.SharedNone:
	default:
		errs = append(errs, fmt.Errorf("managedSlurmdNodes is %q, not Partition, All or None", n.ManagedSlurmdNodes))
	}
	if _, ok := n.Sink(); n.SinkSlurmd != "" && !ok {
		errs = append(errs, fmt.Errorf("sinkSlurmd is %q, not an IP address and a port such as 10.0.0.5:6818: "+
			"slurmctld would look a name up at each job start", n.SinkSlurmd))
	}
	for _, driver := range slices.Sorted(maps.Keys(n.DeviceDrivers)) {
		if name := n.DeviceDrivers[driver]; !gresName.MatchString(name) || driver == device.DriverCPU {
			errs = append(errs, fmt.Errorf("deviceDrivers: driver %s can't be Slurm's resource %q: "+
				"the name of a resource has lower-case letters and digits, as \"nic\"", driver, name))
		}
	}
	return errs
}
