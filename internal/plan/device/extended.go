package device

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Served returns the device classes that serve a pod's extended resources, by resource:
// classes that a resource names itself, and those that bear a resource's name. classOf
// returns the latter, "" for none. It returns nil where each class is that of a driver
// whose devices are all alike to Slurm; Extended plans their claim.
func Served(pod *corev1.Pod, drivers Drivers, classOf func(corev1.ResourceName) string) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{}
	widely := false
	for _, c := range containers(pod) {
		for name, q := range c.Resources.Requests {
			if q.Sign() <= 0 || !strings.Contains(string(name), "/") {
				continue
			}
			class, named := classOfResource(name)
			if !named {
				class = classOf(name)
			}
			if class == "" {
				continue
			}
			out[name] = class
			_, known := drivers.Kind(class)
			widely = widely || !named || class != DriverCPU && (!known || drivers.divides(class) != "")
		}
	}
	if !widely {
		return nil
	}
	return out
}

// Plugin tells whether a node's device plugin offers a resource, which goes before a device class.
func Plugin(node *corev1.Node, name corev1.ResourceName) bool {
	q := node.Status.Allocatable[name]
	return q.Sign() > 0
}

// Requests returns the requests of the claim that stands for a pod's extended resources
// on a node, and which container gets which.
func Requests(pod *corev1.Pod, node *corev1.Node, served map[corev1.ResourceName]string) ([]resourcev1.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	b := newBuilder(pod, Node{}, Grant{})
	var names []corev1.ResourceName
	for name := range served {
		if !Plugin(node, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		take := func(n int) (part, error) {
			request := b.request("device")
			b.out.Requests = append(b.out.Requests, resourcev1.DeviceRequest{Name: request, Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: served[name], AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(n),
			}})
			return part{requests: []string{request}, count: n}, nil
		}
		// Nothing here can fail: what can't be had is seen when it is allocated.
		_ = divide(askers(pod, name), take, func(c container, p part) { b.give(c, name, p.requests[0]) })
	}
	b.sortMappings()
	return b.out.Requests, b.out.Mappings
}

// PluginGRES returns what Slurm counts of the extended resources that a node's device plugin
// offers, of those that a device class would serve elsewhere.
func PluginGRES(pod *corev1.Pod, node *corev1.Node, served map[corev1.ResourceName]string) map[string]int64 {
	out := map[string]int64{}
	for name := range served {
		if !Plugin(node, name) || !slices.ContainsFunc(plugins, func(p plugin) bool { return p.resource == string(name) }) {
			continue
		}
		sum, brief := 0, 0
		for _, c := range askers(pod, name) {
			if c.brief {
				brief = max(brief, c.want)
			} else {
				sum += c.want
			}
		}
		out["gres/gpu"] += int64(max(sum, brief))
	}
	return out
}
