package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// maxCPUs is the largest number of CPUs of a task: Slurm keeps it in 16 bits, of which
// it takes the lowest of a larger number without a word, and two values mean "none".
const maxCPUs = 65533

// needs returns what each pod takes of its node.
func needs(pods []*corev1.Pod, s Settings) ([]Need, error) {
	out := make([]Need, 0, len(pods))
	var errs []error
	for _, pod := range pods {
		n, err := podNeed(pod)
		if err != nil {
			errs = append(errs, err)
		}
		if s.CPUPerTask > 0 {
			n.CPUs = s.CPUPerTask
		}
		if s.GRES != "" {
			n.GRES = nil
		}
		out = append(out, n)
	}
	return out, errors.Join(errs...)
}

// podNeed returns what a pod takes of its node. A pod that asks for no memory
// counts as 1 MiB: 0 would mean the whole node to Slurm, and Kubernetes promises
// such a pod nothing either.
func podNeed(pod *corev1.Pod) (Need, error) {
	list := needsOf(pod)
	cpus := list.Cpu().Value()
	if q, ok := list[resourceCPUClass]; ok {
		cpus = max(cpus, q.Value())
	}
	if cpus < 0 || cpus > maxCPUs {
		return Need{}, fmt.Errorf("pod %s asks for %d CPUs; Slurm counts up to %d on a node", pod.Name, cpus, maxCPUs)
	}
	n := Need{CPUs: uint32(cpus), Memory: mebibytes(list.Memory().Value())}
	for name, q := range list {
		if tres, ok := tresName(name); ok && q.Sign() > 0 {
			if n.GRES == nil {
				n.GRES = map[string]int64{}
			}
			n.GRES[tres] += q.Value()
		}
	}
	if n.GRES["gres/gpu"] > 0 && len(n.GRES) > 1 {
		return n, fmt.Errorf("pod %s asks for GPUs of a device plugin and for devices of a device class (%s): "+
			"Slurm can't give gpu with and without a type to one job", pod.Name, tresOf(n.GRES))
	}
	return n, nil
}

// needsOf returns the greater of a pod's requests and limits, by resource, with
// init containers, sidecars and overhead counted as the kubelet counts them. CPUs
// of the driver count as CPUs of their container.
func needsOf(pod *corev1.Pod) corev1.ResourceList {
	pod = pinnedAsCPUs(pod)
	list := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, limit := range resource.PodLimits(pod, resource.PodResourcesOptions{}) {
		if have, ok := list[name]; !ok || have.Cmp(limit) < 0 {
			list[name] = limit
		}
	}
	return list
}

// pinnedAsCPUs returns the pod with the CPUs of the driver as CPUs of each
// container: one container's own CPUs and another's from the driver add up.
func pinnedAsCPUs(pod *corev1.Pod) *corev1.Pod {
	pins := func(c *corev1.Container) bool {
		_, request := c.Resources.Requests[resourceCPUClass]
		_, limit := c.Resources.Limits[resourceCPUClass]
		return request || limit
	}
	any := false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			any = any || pins(&list[i])
		}
	}
	if !any {
		return pod
	}
	out := *pod
	convert := func(list []corev1.Container) []corev1.Container {
		list = slices.Clone(list)
		for i := range list {
			r := &list[i].Resources
			for _, part := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
				pinned, ok := (*part)[resourceCPUClass]
				if have := (*part)[corev1.ResourceCPU]; ok && have.Cmp(pinned) < 0 {
					*part = maps.Clone(*part)
					(*part)[corev1.ResourceCPU] = pinned
				}
			}
		}
		return list
	}
	out.Spec.InitContainers, out.Spec.Containers = convert(pod.Spec.InitContainers), convert(pod.Spec.Containers)
	return &out
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

// tresOf prints generic resources as a TRES expression in a fixed order.
func tresOf(gres map[string]int64) string {
	var terms []string
	for _, name := range slices.SortedFunc(maps.Keys(gres), cmp.Compare[string]) {
		terms = append(terms, fmt.Sprintf("%s=%d", name, gres[name]))
	}
	return strings.Join(terms, ",")
}
