package device

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Node is what a Kubernetes node has for jobs.
type Node struct {
	Name string
	// CPUs is nil where no driver publishes them.
	CPUs *CPUs
	// Resources are in the order in which Slurm numbers them: the devices of one name
	// are counted through, over all types.
	Resources []Resource
	// Unsettled is why what is published can't be used now, "" if it can: nothing may
	// be concluded from it then, neither that devices are there nor that they are gone.
	Unsettled string
	// Unusable is why the CPU driver's devices can't be given to pods, "" if they can, or
	// if there are none. The node then has the CPUs that Kubernetes counts, as any other.
	Unusable string
}

// Of reads a node's devices from the ResourceSlices about it and from its status.
func Of(node *corev1.Node, published []*resourcev1.ResourceSlice, drivers Drivers) Node {
	n := Node{Name: node.Name}
	pools := map[string]pool{}
	for _, p := range poolsOf(node.Name, published) {
		_, resource := drivers[p.driver]
		if !resource && p.driver != DriverCPU {
			continue
		}
		if !p.whole {
			n.Unsettled = fmt.Sprintf("driver %s hasn't published all ResourceSlices of its pool %s yet", p.driver, p.name)
			return n
		}
		if other, twice := pools[p.driver]; twice {
			n.Unsettled = fmt.Sprintf("driver %s publishes two pools for the node, %s and %s", p.driver, other.name, p.name)
			return n
		}
		pools[p.driver] = p
	}
	if p, ok := pools[DriverCPU]; ok {
		if n.CPUs, n.Unusable = cpusOf(p, node); n.CPUs != nil {
			n.CPUs.limit(int(node.Status.Allocatable.Cpu().MilliValue() / 1000))
		}
	}
	for _, driver := range drivers.sortedDrivers() {
		if p, ok := pools[driver]; ok {
			p.devices = apart(p, node.Annotations[v1beta1.AnnotationDeviceParts])
			n.Resources = append(n.Resources, resourcesOf(p, drivers, n.CPUs)...)
		}
	}
	n.Resources = append(n.Resources, pluginResources(node, n.Resources)...)
	return n
}

// Fingerprint changes when Slurm's numbers stand for other devices than before,
// "" for a node without devices of drivers.
func (n Node) Fingerprint() string {
	h := sha256.New()
	some := n.CPUs != nil
	if some {
		for i, core := range n.CPUs.Cores {
			fmt.Fprintf(h, "core %d %v\n", i, core.CPUs)
		}
	}
	for _, r := range n.Resources {
		for _, d := range r.Devices {
			some = true
			fmt.Fprintf(h, "%s %s %s\n", r.Name, r.Type, d.Name)
		}
	}
	if !some {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Drivers returns the drivers that publish the node's devices, sorted.
func (n Node) Drivers() []string {
	var out []string
	if n.CPUs != nil {
		out = append(out, DriverCPU)
	}
	for _, r := range n.Resources {
		if len(r.Devices) > 0 {
			out = append(out, r.driver)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
