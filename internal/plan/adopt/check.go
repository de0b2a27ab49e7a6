package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/environment"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Verdict is what is said about an object.
type Verdict struct {
	// Refusals are sentences, none for an object that may pass.
	Refusals []string
	Warnings []string
}

func (v *Verdict) refuse(format string, args ...any) {
	v.Refusals = append(v.Refusals, fmt.Sprintf(format, args...))
}

// refuseAll adds each sentence of an error; several are on a line each.
func (v *Verdict) refuseAll(err error) {
	if err != nil {
		v.Refusals = append(v.Refusals, strings.Split(err.Error(), "\n")...)
	}
}

// New judges a new pod.
func New(pod *corev1.Pod, f Facts) Verdict {
	var v Verdict
	if !f.Ours(pod) {
		return v
	}
	if _, set := pod.Labels[v1beta1.LabelJobID]; set {
		v.refuse("label %s is the bridge's: it names the Slurm job that covers a pod", v1beta1.LabelJobID)
	}
	for _, key := range placementAnnotations() {
		if _, set := pod.Annotations[key]; set {
			v.refuse("annotation %s is the bridge's: Slurm decides where a pod goes", key)
		}
	}
	v.devices(pod, pod.Annotations, f)
	if pod.Spec.SchedulerName != f.SchedulerName {
		return v
	}
	v.environment(pod.Annotations)
	for _, field := range workload.Unsupported(pod) {
		v.refuse("Slurm can't honour %s", field)
	}
	if bare(pod) {
		v.job(pod.Annotations, deadline(pod), f)
	} else if set := jobAnnotations(pod.Annotations); len(set) > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("these annotations have no effect on a pod that another object owns; set them there: %s", strings.Join(set, ", ")))
	}
	return v
}

// Changed judges a change of a pod. Only what changes is looked at: a pod that was let in
// must be able to end, whatever the rules are by then. Bridge tells that the bridge asks.
func Changed(old, pod *corev1.Pod, f Facts, bridge bool) Verdict {
	var v Verdict
	if pod.DeletionTimestamp != nil || !f.Ours(pod) {
		return v
	}
	if !bridge {
		if was, is := old.Labels[v1beta1.LabelJobID], pod.Labels[v1beta1.LabelJobID]; was != is {
			v.refuse("label %s is the bridge's: it can't be changed from %q to %q", v1beta1.LabelJobID, was, is)
		}
		for _, key := range placementAnnotations() {
			if was, is := old.Annotations[key], pod.Annotations[key]; was != is {
				v.refuse("annotation %s is the bridge's: it can't be changed from %q to %q", key, was, is)
			}
		}
	}
	if slices.Equal(settings(old.Annotations), settings(pod.Annotations)) {
		return v
	}
	v.devices(pod, pod.Annotations, f)
	if bare(pod) && pod.Spec.SchedulerName == f.SchedulerName {
		v.job(pod.Annotations, deadline(pod), f)
	}
	return v
}

// Bound judges what a Binding adds to its pod: the API server copies its labels and annotations there.
func Bound(labels, annotations map[string]string, bridge bool) Verdict {
	var v Verdict
	if bridge {
		return v
	}
	if value, set := labels[v1beta1.LabelJobID]; set {
		v.refuse("label %s is the bridge's: a binding can't set it to %q", v1beta1.LabelJobID, value)
	}
	for _, key := range append(placementAnnotations(), jobAnnotations(annotations)...) {
		if value, set := annotations[key]; set {
			v.refuse("annotation %s can't be set to %q by a binding: what a pod's job is, is said before it is placed", key, value)
		}
	}
	return v
}

// Resize judges a change of the resources of a running pod.
func Resize(pod *corev1.Pod, f Facts) Verdict {
	var v Verdict
	if f.Ours(pod) {
		v.refuse("pod %s can't be resized in place: Slurm has given it what it asked for, and an external job can't grow or shrink", nameOf(pod))
	}
	return v
}

// placementAnnotations are those that only the bridge writes.
func placementAnnotations() []string {
	return append([]string{v1beta1.AnnotationNode, v1beta1.AnnotationCores, v1beta1.AnnotationJob}, environment.Annotations()...)
}

// job judges job annotations where they count.
func (v *Verdict) job(annotations map[string]string, deadline int64, f Facts) {
	s, err := workload.ParseAnnotations(annotations)
	v.refuseAll(err)
	v.refuseAll(f.Rules.Check(annotations, deadline))
	if len(s.Ignored) > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("these annotations have no effect, because job annotations are known ones with the prefix %s: %s",
			v1beta1.JobAnnotationPrefix, strings.Join(s.Ignored, ", ")))
	}
}

func (v *Verdict) environment(annotations map[string]string) {
	if _, err := environment.Parse(annotations[v1beta1.AnnotationEnvironment]); err != nil {
		v.refuse("annotation %s: %v", v1beta1.AnnotationEnvironment, err)
	}
}

// devices finds contradictions between the devices that containers ask for and the rest.
func (v *Verdict) devices(pod *corev1.Pod, annotations map[string]string, f Facts) {
	asked := resourcesOf(pod)
	_, cpuClass := asked[workload.ResourceCPUClass]
	_, cpu := asked[corev1.ResourceCPU]
	if cpuClass && cpu {
		v.refuse("pod %s asks for cpu and for %s: CPUs are either shared or its own", nameOf(pod), workload.ResourceCPUClass)
	}
	if key := v1beta1.AnnotationCPUPerTask; cpuClass && annotations[key] != "" {
		v.refuse("annotation %s contradicts %s of pod %s, which says the number of CPUs", key, workload.ResourceCPUClass, nameOf(pod))
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if !strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || name == workload.ResourceCPUClass {
			continue
		}
		if key := v1beta1.AnnotationGRES; annotations[key] != "" {
			v.refuse("annotation %s contradicts %s of pod %s, which says the number of devices", key, name, nameOf(pod))
		}
	}
}

// nameOf returns a pod's name, as far as it has one before it is stored.
func nameOf(pod *corev1.Pod) string {
	if pod.Name == "" {
		return pod.GenerateName
	}
	return pod.Name
}

// resourcesOf returns the names of all resources that a pod asks for, by whatever way.
func resourcesOf(pod *corev1.Pod) map[corev1.ResourceName]bool {
	out := map[corev1.ResourceName]bool{}
	take := func(r corev1.ResourceRequirements) {
		for name := range r.Requests {
			out[name] = true
		}
		for name := range r.Limits {
			out[name] = true
		}
	}
	if pod.Spec.Resources != nil {
		take(*pod.Spec.Resources)
	}
	for _, c := range pod.Spec.InitContainers {
		take(c.Resources)
	}
	for _, c := range pod.Spec.Containers {
		take(c.Resources)
	}
	return out
}

func deadline(pod *corev1.Pod) int64 {
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 {
		return *d
	}
	return 0
}

// jobAnnotations returns the keys of the annotations that are about the job.
func jobAnnotations(annotations map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, v1beta1.JobAnnotationPrefix) {
			out = append(out, key)
		}
	}
	return out
}

// settings returns the job annotations with their values.
func settings(annotations map[string]string) []string {
	out := jobAnnotations(annotations)
	for i, key := range out {
		out[i] = key + "=" + annotations[key]
	}
	return out
}
