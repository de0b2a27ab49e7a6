package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/device"
)

// resourceCPUClass is the extended resource of the CPU driver's device class.
const resourceCPUClass = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "dra.cpu")

// vendorGPUs are the resources of device plugins that count as Slurm's plain gpu.
var vendorGPUs = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu"}

// maxCPUs is the largest number of CPUs of a task: Slurm keeps it in 16 bits, of which
// it takes the lowest of a larger number without a word, and two values mean "none".
const maxCPUs = 65533

// maxDevices bounds how many devices of a kind a pod may ask for, far beyond what a node can have.
const maxDevices = 1 << 20

// whole returns a quantity in whole units, rounded up, and the greatest number for one that is still greater: the sum of
// several may be.
func whole(q apiresource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return max(q.Value(), 0)
}

// needs returns what each pod takes of its node.
func needs(pods []*corev1.Pod, s Settings, f Feasibility, drivers device.Drivers) ([]Need, error) {
	out := make([]Need, 0, len(pods))
	var errs []error
	for _, pod := range pods {
		n, err := podNeed(pod, f.Claimed[pod.UID], f.served(pod), drivers)
		if err != nil {
			errs = append(errs, err)
		}
		if s.CPUPerTask > 0 {
			n.CPUs = s.CPUPerTask
		}
		if s.GRES != "" && len(f.Claimed[pod.UID].GRES) > 0 {
			errs = append(errs, fmt.Errorf("annotation %s contradicts the claims of pod %s, which say the number of devices (%s)",
				v1beta1.AnnotationGRES, pod.Name, tresOf(f.Claimed[pod.UID].GRES)))
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
// such a pod nothing either. claimed is what its claims take, and served tells which
// resources are in there.
func podNeed(pod *corev1.Pod, claimed device.Demand, served func(corev1.ResourceName) bool, drivers device.Drivers) (Need, error) {
	list := needsOf(pod)
	cpus := whole(list[corev1.ResourceCPU])
	if q, ok := list[resourceCPUClass]; ok {
		cpus = max(cpus, whole(q))
	}
	if claimed.CPUs > 0 {
		beside := needsOf(unclaimed(pod))
		cpus = max(cpus, int64(claimed.CPUs)+min(whole(beside[corev1.ResourceCPU]), maxCPUs))
	}
	if cpus > maxCPUs {
		return Need{}, fmt.Errorf("pod %s asks for %d CPUs; Slurm counts up to %d on a node", pod.Name, cpus, maxCPUs)
	}
	n := Need{CPUs: uint32(cpus), Memory: mebibytes(whole(list[corev1.ResourceMemory]))}
	take := func(name string, count int64) {
		if n.GRES == nil {
			n.GRES = map[string]int64{}
		}
		n.GRES[name] += count
	}
	for name, q := range list {
		if tres, ok := tresName(name, drivers); ok && q.Sign() > 0 && !served(name) {
			if whole(q) > maxDevices {
				return n, fmt.Errorf("pod %s asks for %s of %s; no node has more than %d", pod.Name, q.String(), name, maxDevices)
			}
			take(tres, whole(q))
		}
	}
	for name, count := range claimed.GRES {
		take(name, count)
	}
	for name := range n.GRES {
		if kind, _, typed := strings.Cut(name, ":"); typed && n.GRES[kind] > 0 {
			return n, fmt.Errorf("pod %s asks for devices of any type, as of a device plugin, and for those of a device class (%s): "+
				"Slurm can't give %s with and without a type to one job", pod.Name, tresOf(n.GRES), strings.TrimPrefix(kind, "gres/"))
		}
	}
	return n, nil
}

// unclaimed returns the pod without the CPUs of the containers that use claims: those have
// what the claims give them.
func unclaimed(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	without := func(list []corev1.Container) []corev1.Container {
		list = slices.Clone(list)
		for i := range list {
			if len(list[i].Resources.Claims) == 0 {
				continue
			}
			for _, part := range []*corev1.ResourceList{&list[i].Resources.Requests, &list[i].Resources.Limits} {
				*part = maps.Clone(*part)
				delete(*part, corev1.ResourceCPU)
			}
		}
		return list
	}
	out.Spec.Resources = nil
	out.Spec.InitContainers, out.Spec.Containers = without(pod.Spec.InitContainers), without(pod.Spec.Containers)
	return &out
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

// tresName returns Slurm's name for a resource that is a device.
func tresName(name corev1.ResourceName, drivers device.Drivers) (string, bool) {
	if slices.Contains(vendorGPUs, name) {
		return "gres/gpu", true
	}
	class, ok := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
	if !ok || name == resourceCPUClass {
		return "", false
	}
	kind, known := drivers.Kind(class)
	if !known {
		kind = "gpu"
	}
	return "gres/" + kind + ":" + class, true
}

// tresOf prints generic resources as a TRES expression in a fixed order.
func tresOf(gres map[string]int64) string {
	var terms []string
	for _, name := range slices.SortedFunc(maps.Keys(gres), cmp.Compare[string]) {
		terms = append(terms, fmt.Sprintf("%s=%d", name, gres[name]))
	}
	return strings.Join(terms, ",")
}
