package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Owner is an object that speaks for its pods: a Job, a JobSet, a PodGroup and the like.
type Owner struct {
	Kind, Name  string
	Annotations map[string]string
	// Deadline is how many seconds its pods may run, 0 for no limit.
	Deadline int64
	// Owned tells that another object is above it, and may speak for the pods instead.
	Owned bool
	// Templates are those of its pods, none where it makes no pods.
	Templates []corev1.PodTemplateSpec
}

// ours tells whether an owner's pods are the bridge's. An object that makes no pods is taken
// at its word: it has job annotations.
func (f Facts) ours(o Owner) bool {
	return len(o.Templates) == 0 || slices.ContainsFunc(o.Templates, f.places)
}

// places tells whether the bridge places the pods of a template.
func (f Facts) places(t corev1.PodTemplateSpec) bool {
	name := t.Spec.SchedulerName
	return name == f.SchedulerName || f.Managed && (name == "" || name == corev1.DefaultSchedulerName)
}

// NewOwner judges a new owner, where its mistakes are made.
func NewOwner(o Owner, f Facts) Verdict {
	var v Verdict
	if !f.ours(o) {
		return v
	}
	if o.Owned {
		if set := jobAnnotations(o.Annotations); len(set) > 0 {
			v.Warnings = append(v.Warnings, fmt.Sprintf("these annotations have no effect where an object above this %s speaks for its pods: %s", o.Kind, strings.Join(set, ", ")))
		}
	} else {
		v.job(o.Annotations, o.Deadline, f)
	}
	for _, t := range o.Templates {
		if f.places(t) {
			v.template(t, o, f)
		}
	}
	slices.Sort(v.Refusals)
	v.Refusals = slices.Compact(v.Refusals)
	return v
}

// OwnerChanged judges a change of an owner. One that leaves alone what is judged passes.
func OwnerChanged(old, now Owner, f Facts) Verdict {
	if slices.Equal(settings(old.Annotations), settings(now.Annotations)) && old.Deadline == now.Deadline &&
		equality.Semantic.DeepEqual(old.Templates, now.Templates) {
		return Verdict{}
	}
	return NewOwner(now, f)
}

func (v *Verdict) template(t corev1.PodTemplateSpec, o Owner, f Facts) {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name = "of " + o.Kind + " " + o.Name
	v.environment(t.Annotations)
	for _, field := range workload.Unsupported(pod) {
		v.refuse("Slurm can't honour %s of its pods", field)
	}
	v.devices(pod, o.Annotations, f)
}
