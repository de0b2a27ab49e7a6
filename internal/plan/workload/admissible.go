package workload

import corev1 "k8s.io/api/core/v1"

// ResourceCPUClass is the extended resource of the CPU driver's device class.
const ResourceCPUClass = resourceCPUClass

// Unsupported names what a pod asks for and Slurm can't honour, with what to do instead
// where there is something. It is refused at admission and, once more, before a job is made.
func Unsupported(pod *corev1.Pod) []string { return unsupported(pod) }
