package workload

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/resource"
)

// resourceCPUClass is the extended resource of the CPU driver's device class.
const resourceCPUClass = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "dra.cpu")

// vendorGPUs are the resources of device plugins that count as Slurm's plain gpu.
var vendorGPUs = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu"}

// shape is what one node must give to any one pod of a group.
type shape struct {
	cpus uint32
	// memory is in bytes.
	memory int64
	// gres counts generic resources by their TRES name, as "gres/gpu".
	gres map[string]int64
}

// shapeOf returns the greatest need of the pods in each dimension.
func shapeOf(pods []*corev1.Pod) (shape, error) {
	s := shape{gres: map[string]int64{}}
	for _, pod := range pods {
		needs := needsOf(pod)
		cpus := needs.Cpu().Value()
		if q, ok := needs[resourceCPUClass]; ok {
			cpus = max(cpus, q.Value())
		}
		if cpus < 0 || cpus > math.MaxInt32 {
			return s, fmt.Errorf("pod %s asks for %d CPUs, which no node has", pod.Name, cpus)
		}
		s.cpus = max(s.cpus, uint32(cpus))
		s.memory = max(s.memory, needs.Memory().Value())
		for name, q := range needs {
			if tres, ok := tresName(name); ok && !q.IsZero() {
				s.gres[tres] = max(s.gres[tres], q.Value())
			}
		}
	}
	return s, nil
}

// needsOf returns the greater of a pod's requests and limits, by resource, with
// init containers, sidecars and overhead counted as the kubelet counts them.
func needsOf(pod *corev1.Pod) corev1.ResourceList {
	needs := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, limit := range resource.PodLimits(pod, resource.PodResourcesOptions{}) {
		if have, ok := needs[name]; !ok || have.Cmp(limit) < 0 {
			needs[name] = limit
		}
	}
	return needs
}

// tresName returns Slurm's name for a GPU resource.
func tresName(name corev1.ResourceName) (string, bool) {
	if slices.Contains(vendorGPUs, name) {
		return "gres/gpu", true
	}
	class, ok := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
	if !ok || name == resourceCPUClass {
		return "", false
	}
	return "gres/gpu:" + class, true
}

// tres prints the generic resources as a TRES expression in a fixed order.
func (s shape) tres() string {
	var terms []string
	for _, name := range slices.SortedFunc(maps.Keys(s.gres), cmp.Compare[string]) {
		terms = append(terms, fmt.Sprintf("%s=%d", name, s.gres[name]))
	}
	return strings.Join(terms, ",")
}
