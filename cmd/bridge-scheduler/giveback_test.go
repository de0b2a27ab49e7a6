package main

import (
	"fmt"
	"slices"
	"strings"
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
	w.allBut1(t, "DRAIN")
	w.pod("refused", nil)
	w.eventually(t, "Slurm gives the node with the taint", func() error {
		pod, err := w.get("refused")
		if err == nil && pod.Annotations[v1beta1.AnnotationNode] != "w1" {
			err = errWait
		}
		return err
	})
	w.allBut1(t, "UNDRAIN")
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

// allBut1 sets the state of all nodes but w1 in Slurm.
func (w *world) allBut1(t *testing.T, state string) {
	t.Helper()
	for _, name := range []string{"w2", "w3"} {
		if err := w.slurm.UpdateNode(t.Context(), name, slurm.NodeUpdate{State: state, Reason: "for a test"}); err != nil {
			t.Fatal(err)
		}
	}
}

// neverHalfAGang: what pods without a job take of a node isn't known to Slurm, so that Kubernetes
// would bind one member and refuse the other. Both go elsewhere together.
func (w *world) neverHalfAGang(t *testing.T) {
	w.daemon("daemon", "w1")
	w.allBut1(t, "DRAIN")
	w.pod("first", all(shared, cpus("2")))
	w.bound(t, "first")
	w.gang(t, "half", 2, v1beta1.AnnotationExclusive, "false")
	for _, name := range []string{"half-0", "half-1"} {
		w.pod(name, member("half"))
	}
	if text := w.held(t, "half-0", "NodeStillOccupied"); !strings.Contains(text, "too little cpu") {
		t.Errorf("the pod says %q", text)
	}
	for _, name := range []string{"half-0", "half-1"} {
		if pod, err := w.get(name); err != nil || pod.Spec.NodeName != "" {
			t.Errorf("%s is bound to %q (%v), and there is no room for both", name, pod.Spec.NodeName, err)
		}
	}
	w.allBut1(t, "UNDRAIN")
	p0, p1 := w.bound(t, "half-0"), w.bound(t, "half-1")
	if p0.Spec.NodeName == "w1" || p1.Spec.NodeName == "w1" {
		t.Errorf("the pods are bound to %s and %s", p0.Spec.NodeName, p1.Spec.NodeName)
	}
}

// daemon is a pod of one CPU on a node, of which Slurm knows nothing.
func (w *world) daemon(name, node string) {
	w.pod(name, func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = "default-scheduler", node })
}

// packedBesideDaemons: a gang that shares nodes asks for no more on each than Kubernetes has room for.
func (w *world) packedBesideDaemons(t *testing.T) {
	for _, node := range []string{"w1", "w2", "w3"} {
		w.daemon("daemon-"+node, node)
	}
	gang := func(name string, size int32) {
		w.gang(t, name, size, v1beta1.AnnotationExclusive, "false")
		for i := range size {
			w.pod(fmt.Sprintf("%s-%d", name, i), member(name))
		}
	}
	gang("packed", 4)
	on := map[string]int{}
	for i := range 4 {
		on[w.bound(t, fmt.Sprintf("packed-%d", i)).Spec.NodeName]++
	}
	if len(on) != 2 {
		t.Errorf("the pods are on %v", on)
	}
	gang("huge", 10)
	if text := w.held(t, "huge-0", "NoUsableNode"); !strings.HasPrefix(text, "beside the pods that no job covers, such as daemons, the 3 nodes that suit have room for 9 of the 10 tasks") {
		t.Errorf("the pod says %q", text)
	}
	for _, node := range []string{"w1", "w2", "w3"} {
		w.remove(t, "daemon-"+node)
		w.finish(t, "daemon-"+node)
	}
	for i := range 4 {
		w.kubelet(t, fmt.Sprintf("packed-%d", i), corev1.PodSucceeded)
	}
	for i := range 10 {
		w.bound(t, fmt.Sprintf("huge-%d", i))
	}
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
