package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// claimModes: what else a claim may say counts among what Slurm gave: all devices, or devices
// that have something in common or differ.
func (w *world) claimModes(t *testing.T) {
	every := exactly("every", gpuClass, 0)
	every.Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	model := resourcev1.FullyQualifiedName(gpuClass + "/model")
	for name, c := range map[string]struct {
		request    resourcev1.DeviceRequest
		constraint *resourcev1.DeviceConstraint
		want       []string
	}{
		"every":    {every, nil, []string{"every:gpu-0", "every:gpu-1", "every:gpu-2"}},
		"alike":    {exactly("gpus", gpuClass, 2), &resourcev1.DeviceConstraint{MatchAttribute: &model}, []string{"gpus:gpu-0", "gpus:gpu-1"}},
		"distinct": {exactly("gpus", gpuClass, 2), &resourcev1.DeviceConstraint{DistinctAttribute: &model}, []string{"gpus:gpu-0", "gpus:gpu-2"}},
	} {
		w.constrained(t, name, c.request, c.constraint)
		pod := w.pod("claim-"+name, all(claims(name), wholeNode))
		w.bound(t, pod.Name)
		got := w.has(t, name)
		slices.Sort(got)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		w.over(t, pod.Name, name)
	}
}

// over ends a pod, waits for its job's end and takes its claim away.
func (w *world) over(t *testing.T, pod, claim string) {
	t.Helper()
	now, err := w.get(pod)
	if err != nil {
		t.Fatal(err)
	}
	j := w.job(t, now)
	w.kubelet(t, pod, corev1.PodSucceeded)
	w.jobEnds(t, j.ID)
	w.dropClaim(t, claim)
}

// wholeNode makes a pod have its node for itself, with all devices.
func wholeNode(p *corev1.Pod) { delete(p.Annotations, v1beta1.AnnotationExclusive) }

// constrained creates a ResourceClaim of one request, with a constraint if there is one.
func (w *world) constrained(t *testing.T, name string, r resourcev1.DeviceRequest, constraint *resourcev1.DeviceConstraint) {
	t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{r}
	if constraint != nil {
		constraint.Requests = []string{r.Name}
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{*constraint}
	}
	if _, err := w.kube.ResourceV1().ResourceClaims(namespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
