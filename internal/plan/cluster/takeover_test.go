package cluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// The annotations of pod templates are computed as the published operator does, or taking a
// running cluster over would restart every daemon. The wanted sums are those of sha256sum.
func TestCheck56HashesAreThePublishedOnes(t *testing.T) {
	const (
		sumOfK  = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a" // printf k
		sumOfJ  = "189f40034be7a199f1fa9891668ee3ab6049f82d38c68be70f596eab2e1857b7" // printf j
		sumOfAB = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603" // printf ab
		nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // printf ''
	)
	// Values in the order of their keys, without the keys and without anything between them.
	if got := checksumOfMap(map[string]string{"2": "b", "1": "a"}); got != sumOfAB {
		t.Errorf("the sum of a map is %s", got)
	}
	if got := checksumOfMap(map[string]string{"1": ""}); got != "" {
		t.Errorf("the sum of an empty map is %q", got)
	}
	if got := checksum(nil); got != nothing {
		t.Errorf("the sum of nothing is %s", got)
	}

	plan := Controller(facts())
	var set *appsv1.StatefulSet
	var config *corev1.ConfigMap
	for _, o := range plan.Objects {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			set = o
		case *corev1.ConfigMap:
			config = o
		}
	}
	if set == nil || config == nil {
		t.Fatalf("no StatefulSet or no ConfigMap is planned: %v", plan.Objects)
	}
	for name, want := range map[string]string{
		v1beta1.AnnotationSlurmKeyHash: sumOfK, v1beta1.AnnotationJwtKeyHash: sumOfJ,
		v1beta1.AnnotationSlurmConfigHash: checksum([]byte(config.Data["cgroup.conf"] + config.Data["slurm.conf"])),
	} {
		if got := set.Spec.Template.Annotations[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	// Selectors can't be changed: these are the published ones.
	want := map[string]string{"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "slurm"}
	if len(set.Spec.Selector.MatchLabels) != 2 || set.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != want["app.kubernetes.io/name"] ||
		set.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != want["app.kubernetes.io/instance"] {
		t.Errorf("the selector is %v, want %v", set.Spec.Selector.MatchLabels, want)
	}
}
