package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// refusedNode: Slurm gives a node that Kubernetes' own filters keep the pod off. It gets another
// one, and the first is free for others.
func (w *world) refusedNode(t *testing.T) {
	// Such taints come and go with a node's condition, so that Slurm isn't told of them.
	taint := corev1.Taint{Key: "node.kubernetes.io/test", Effect: corev1.TaintEffectNoSchedule}
	w.taints(t, "w1", func(have []corev1.Taint) []corev1.Taint { return append(have, taint) })
	defer w.taints(t, "w1", func(have []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(have, func(h corev1.Taint) bool { return h.Key == taint.Key })
	})
	others := func(state string) {
		for _, name := range []string{"w2", "w3"} {
			if err := w.slurm.UpdateNode(t.Context(), name, slurm.NodeUpdate{State: state, Reason: "for a test"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	others("DRAIN")
	w.pod("refused", nil)
	w.eventually(t, "Slurm gives the node with the taint", func() error {
		pod, err := w.get("refused")
		if err == nil && pod.Annotations[v1beta1.AnnotationNode] != "w1" {
			err = errWait
		}
		return err
	})
	others("UNDRAIN")
	if pod := w.bound(t, "refused"); pod.Spec.NodeName == "w1" {
		t.Fatal("the pod is bound to a node with a taint that it doesn't tolerate")
	}
	w.eventually(t, "the refused node is free in Slurm", func() error {
		n, err := w.slurm.Node(t.Context(), "w1")
		if err == nil && n.AllocCPUs > 0 {
			err = fmt.Errorf("%d of its CPUs are allocated", n.AllocCPUs)
		}
		return err
	})
}

// nodesChange: a job that waits may use a node that suits its pod by now.
func (w *world) nodesChange(t *testing.T) {
	label := func(node, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"drive":%q}}}`, value)
		if _, err := w.kube.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	fast := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"drive": "fast"} }
	label("w1", "fast")
	defer func() { label("w1", "slow"); label("w2", "slow") }()
	w.pod("holds", fast)
	w.bound(t, "holds")
	w.pod("waits", fast)
	w.held(t, "waits", "QueuedInSlurm")
	label("w2", "fast")
	if pod := w.bound(t, "waits"); pod.Spec.NodeName != "w2" {
		t.Errorf("the pod is bound to %s", pod.Spec.NodeName)
	}
}

func (w *world) taints(t *testing.T, node string, change func([]corev1.Taint) []corev1.Taint) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := w.kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = change(n.Spec.Taints)
		_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
