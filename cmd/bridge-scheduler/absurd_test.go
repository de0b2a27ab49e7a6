package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// asks makes each of a pod's containers, which are as many as there are quantities, ask for so much.
func asks(name corev1.ResourceName, quantities ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		first := p.Spec.Containers[0]
		p.Spec.Containers = nil
		for i, q := range quantities {
			c := *first.DeepCopy()
			c.Name += string(rune('a' + i))
			c.Resources.Requests[name] = resource.MustParse(q)
			if strings.Contains(string(name), "/") {
				c.Resources.Limits = corev1.ResourceList{name: resource.MustParse(q)}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// absurdNumbers: each of them has its sentence, also by itself twice in a pod, and no other pod has to wait for it.
func (w *world) absurdNumbers(t *testing.T) {
	cases := map[string]struct {
		change       func(*corev1.Pod)
		reason, text string
	}{
		"cpu":           {asks(corev1.ResourceCPU, "1e18"), "InvalidJob", "asks for 1000000000000000000 CPUs; Slurm counts up to 65533 on a node"},
		"cpus":          {asks(corev1.ResourceCPU, "9e18", "9e18"), "InvalidJob", "CPUs; Slurm counts up to 65533 on a node"},
		"memory":        {asks(corev1.ResourceMemory, "1e30"), "NoUsableNode", "3: too little memory"},
		"memories":      {asks(corev1.ResourceMemory, "1e30", "1e30"), "NoUsableNode", "3: too little memory"},
		"storage":       {asks(corev1.ResourceEphemeralStorage, "1e30", "1e30"), "NoUsableNode", "3: too little ephemeral-storage"},
		"plugin":        {asks("nvidia.com/gpu", "9e18", "9e18"), "InvalidJob", "asks for 18e18 of nvidia.com/gpu; no node has more than 1048576"},
		"class":         {asks(gpuResource, "9e18", "9e18"), "InvalidJob", "asks for 18e18 of deviceclass.resource.kubernetes.io/gpu.example.com; no node has more than 1048576"},
		"cpu-class":     {asks(cpuResource, "9e18", "9e18"), "InvalidJob", "CPUs; Slurm counts up to 65533 on a node"},
		"cpu-per-task":  {annotated(v1beta1.AnnotationCPUPerTask, "1e18"), "InvalidJob", `"1e18" is not between 1 and 65533 CPUs`},
		"mem-per-node":  {annotated(v1beta1.AnnotationMemPerNode, "1e30"), "RefusedBySlurm", "Requested node configuration is not available"},
		"min-nodes":     {annotated(v1beta1.AnnotationMinNodes, "2147483647"), "QueuedInSlurm", "its partition"},
		"negative":      {annotated(v1beta1.AnnotationMinNodes, "-3"), "InvalidJob", `"-3" is not a whole number of 1 or more`},
		"priority":      {annotated(v1beta1.AnnotationPriority, "99999999999"), "InvalidJob", `"99999999999" is not a whole number of 0 or more`},
		"negative-gres": {annotated(v1beta1.AnnotationGRES, "gpu:-1"), "RefusedBySlurm", ""},
		"many-gres":     {annotated(v1beta1.AnnotationGRES, "gpu:99999999999999999999"), "RefusedBySlurm", ""},
		"licences":      {annotated(v1beta1.AnnotationLicenses, "none:-1"), "RefusedBySlurm", ""},
		"limit":         {annotated(v1beta1.AnnotationTimeLimit, "-1"), "InvalidJob", `"-1" is not a whole number of minutes`},
	}
	for name, c := range cases {
		for _, share := range []string{"true", "false"} {
			w.pod("absurd-"+name+"-"+share, all(c.change, annotated(v1beta1.AnnotationExclusive, share)))
		}
	}
	for name, c := range cases {
		for _, share := range []string{"true", "false"} {
			w.says(t, "absurd-"+name+"-"+share, c.reason, c.text)
		}
	}
	w.pod("sane", nil)
	w.bound(t, "sane")
}
