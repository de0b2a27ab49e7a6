package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// untilNode waits until a node is as it should be in Slurm.
func (w *world) untilNode(t *testing.T, name, what string, good func(slurm.Node) bool) {
	t.Helper()
	w.eventually(t, "node "+name+" "+what, func() error {
		n, err := w.slurm.Node(t.Context(), name)
		if err == nil && !good(n) {
			err = fmt.Errorf("%w: %s, %q, %s", errWait, n.States, n.Reason, n.Address)
		}
		return err
	})
}

// signalled sends a signal to the job of a pod, which slurmctld passes on to the node.
func (w *world) signalled(t *testing.T, id uint32) {
	t.Helper()
	w.cluster.Run(t, "scancel", "--full", "--signal=USR1", fmt.Sprint(id))
}

// port is where slurmctld's messages to a node go, "" for the usual port, and while the node is registered anew.
func (w *world) port(t *testing.T, node string) string {
	t.Helper()
	for f := range strings.FieldsSeq(w.cluster.Run(t, "bash", "-c", "scontrol --oneliner show node "+node+" || true")) {
		if port, ok := strings.CutPrefix(f, "Port="); ok {
			return port
		}
	}
	return ""
}

// nodeIsCured has nobody answer a message of slurmctld's to a node. The pod there goes on,
// nothing else is put there, and the node is good again once it is idle.
func (w *world) nodeIsCured(t *testing.T) {
	w.pod("signalled", nil)
	pod := w.bound(t, "signalled")
	j, node := w.job(t, pod), pod.Spec.NodeName
	w.kubelet(t, "signalled", corev1.PodRunning)
	w.signalled(t, j.ID)
	w.patiently(t, func() {
		w.untilNode(t, node, "is drained for not responding", func(n slurm.Node) bool {
			return n.States.Has(slurm.NodeDrain) && strings.HasPrefix(n.Reason, v1beta1.BridgeReasonPrefix+"Slurm takes it for not responding")
		})
	})
	if now, err := w.get("signalled"); err != nil || now.DeletionTimestamp != nil || !w.job(t, pod).States.Has(slurm.JobRunning) {
		t.Fatalf("the pod is %+v, its job %s, %v", now.ObjectMeta, w.job(t, pod).States, err)
	}
	w.kubelet(t, "signalled", corev1.PodSucceeded)
	w.jobEnds(t, j.ID)
	w.untilNode(t, node, "takes jobs again", func(n slurm.Node) bool {
		return !n.States.HasAny(slurm.NodeNotResponding, slurm.NodeDrain, slurm.NodeDown)
	})
	w.pod("after", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} })
	w.bound(t, "after")
}

// sinkAnswers gives the bridge a slurmd that answers for external nodes: they are
// registered with it, and messages of slurmctld's to them do no harm.
func (w *world) sinkAnswers(t *testing.T) {
	port := w.port(t, "n1")
	w.stop()
	w.settings.SinkSlurmd = "127.0.0.1:" + port
	w.start()
	for _, node := range []string{"w1", "w2", "w3"} {
		w.untilNode(t, node, "has the sink's address", func(slurm.Node) bool { return w.port(t, node) == port })
	}
	w.pod("heard", func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationPartition] = "patient" })
	pod := w.bound(t, "heard")
	j, node := w.job(t, pod), pod.Spec.NodeName
	w.kubelet(t, "heard", corev1.PodRunning)
	w.signalled(t, j.ID)
	id := w.urgent(t, node)
	defer w.drop(t, id)
	defer func() {
		if t.Failed() {
			t.Log(w.cluster.Run(t, "scontrol", "show", "job"), w.cluster.Run(t, "scontrol", "show", "node"))
		}
	}()
	w.disrupted(t, "heard", v1beta1.ReasonSlurmPreempted)
	w.terminated(t, "heard", corev1.PodFailed, 143, "Error")
	// Slurm starts nothing on a node that it takes for not responding.
	w.patiently(t, func() {
		w.eventually(t, "the job that preempts starts there", func() error {
			now, err := w.slurm.Job(t.Context(), id)
			if err == nil && !now.States.Has(slurm.JobRunning) {
				err = fmt.Errorf("%w: %s, %s", errWait, now.States, now.Reason)
			}
			return err
		})
	})
	w.untilNode(t, node, "responds", func(n slurm.Node) bool { return !n.States.Has(slurm.NodeNotResponding) })
}
