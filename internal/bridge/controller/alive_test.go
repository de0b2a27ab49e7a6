package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyAlive(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Labels: map[string]string{"a": "b"}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Unix(100, 0)}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		change(n)
		return n
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"read again": {func(*corev1.Node) {}, false},
		"heartbeat": {func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.NewTime(time.Unix(200, 0))
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
		}, true},
		"not ready":      {func(n *corev1.Node) { n.ResourceVersion, n.Status.Conditions[0].Status = "2", corev1.ConditionFalse }, false},
		"another reason": {func(n *corev1.Node) { n.ResourceVersion, n.Status.Conditions[0].Message = "2", "x" }, false},
		"a label":        {func(n *corev1.Node) { n.ResourceVersion, n.Labels = "2", nil }, false},
		"a taint":        {func(n *corev1.Node) { n.ResourceVersion, n.Spec.Taints = "2", []corev1.Taint{{Key: "x"}} }, false},
		"smaller": {func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Allocatable = "2", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		}, false},
		"same size, written otherwise": {func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Allocatable = "2", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4000m")}
		}, true},
		"leaves": {func(n *corev1.Node) {
			n.ResourceVersion, n.DeletionTimestamp = "2", &metav1.Time{Time: time.Unix(1, 0)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := node(func(*corev1.Node) {})
			if got := onlyAlive(before, node(c.change)); got != c.want {
				t.Errorf("got %v", got)
			}
			if before.ResourceVersion != "1" || before.Status.Conditions[0].LastHeartbeatTime.IsZero() {
				t.Error("the informer's own object was changed")
			}
		})
	}
}
