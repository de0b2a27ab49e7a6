package main

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func (w *world) coscheduling(t *testing.T) {
	w.pod("co-0", labelled(coschedulingLabel, "co"))
	w.says(t, "co-0", "WaitingForMembers", "PodGroup default/co of scheduling.x-k8s.io doesn't exist")
	group := w.create(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: co, annotations: {
		slurmjob.slinky.slurm.net/job-name: together}}, spec: {minMember: 2, scheduleTimeoutSeconds: 30}}`)
	w.says(t, "co-0", "WaitingForMembers", "1 of the 2 pods")
	w.groupHas(t, group, "Pending", 0, 0)
	w.pod("co-1", labelled(coschedulingLabel, "co"))
	p0, p1 := w.bound(t, "co-0"), w.bound(t, "co-1")
	j := w.job(t, p0)
	if j.Name != "together" || w.job(t, p1).ID != j.ID || p0.Spec.NodeName == p1.Spec.NodeName {
		t.Errorf("co-0 on %s, co-1 on %s, job %+v", p0.Spec.NodeName, p1.Spec.NodeName, j)
	}
	w.kubelet(t, "co-0", corev1.PodRunning)
	w.kubelet(t, "co-1", corev1.PodRunning)
	w.groupHas(t, group, "Running", 2, 0)
	w.kubelet(t, "co-0", corev1.PodFailed)
	w.groupHas(t, group, "Failed", 1, 0)
	// The pod that replaces it takes its place.
	w.pod("co-2", labelled(coschedulingLabel, "co"))
	p2 := w.bound(t, "co-2")
	if w.job(t, p2).ID != j.ID || p2.Spec.NodeName != p0.Spec.NodeName {
		t.Errorf("co-2 is on %s in job %s", p2.Spec.NodeName, p2.Labels[v1beta1.LabelJobID])
	}
	w.kubelet(t, "co-1", corev1.PodSucceeded)
	w.kubelet(t, "co-2", corev1.PodSucceeded)
	w.groupHas(t, group, "Finished", 0, 2)
	w.jobEnds(t, j.ID)
}

// groupHas waits for the status of a PodGroup of scheduling.x-k8s.io.
func (w *world) groupHas(t *testing.T, group *unstructured.Unstructured, phase string, running, succeeded int64) {
	t.Helper()
	c := w.client(t)
	w.eventually(t, "PodGroup "+group.GetName()+" is "+phase, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(group.Object, "status")
		if status["phase"] != phase || status["running"] != running || status["succeeded"] != succeeded {
			return fmt.Errorf("%w: status %v", errWait, status)
		}
		return nil
	})
}
