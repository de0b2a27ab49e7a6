package main

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/slurm"
)

// growing has a group of which two of three must start together. All start in one job
// where there is room; a member that is made again takes its place, unless it has become too large for it.
func (w *world) growing(t *testing.T) {
	w.create(t, `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: grows, annotations: {
		slurmjob.slinky.slurm.net/exclusive: "false"}}, spec: {schedulingPolicy: {gang: {minCount: 2}}}}`)
	// All are there before the first can start.
	for i := range 3 {
		w.pod(fmt.Sprintf("grows-%d", i), all(member("grows"), cpus("1"), gate))
	}
	for _, i := range []int{2, 1, 0} {
		w.open(t, fmt.Sprintf("grows-%d", i))
	}
	first := w.job(t, w.bound(t, "grows-2"))
	if w.job(t, w.bound(t, "grows-1")).ID != first.ID {
		t.Error("two that must start together are in two jobs")
	}
	w.bound(t, "grows-0")
	w.kubelet(t, "grows-1", corev1.PodFailed)
	w.remove(t, "grows-1")
	w.finish(t, "grows-1")
	w.pod("grows-3", all(member("grows"), cpus("1")))
	if j := w.job(t, w.bound(t, "grows-3")); j.ID != first.ID {
		t.Errorf("the pod that replaces a member is in job %d, not %d", j.ID, first.ID)
	}
	w.kubelet(t, "grows-3", corev1.PodFailed)
	w.remove(t, "grows-3")
	w.finish(t, "grows-3")
	w.pod("grows-4", all(member("grows"), cpus("2")))
	if j := w.job(t, w.bound(t, "grows-4")); j.ID == first.ID {
		t.Errorf("a pod that is larger than the place is in job %d", j.ID)
	}
}

// gate holds a pod back until open takes its gate away.
func gate(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
}

func (w *world) open(t *testing.T, name string) {
	t.Helper()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`))
	if err := w.client(t).Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, patch); err != nil {
		t.Fatal(err)
	}
}

// composite has a group that is a part of one that can't be started as a whole.
func (w *world) composite(t *testing.T) {
	w.create(t, `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: part}, spec: {
		workloadRef: {workloadName: tree, templateName: leaf}, parentCompositePodGroupName: whole, schedulingPolicy: {gang: {minCount: 1}}}}`)
	w.pod("part-0", member("part"))
	w.says(t, "part-0", "WaitingForMembers", "a part of CompositePodGroup whole, which can't be started as a whole")
}

// asksTogether has a group that is to have more than its pods ask for.
func (w *world) asksTogether(t *testing.T) {
	group := w.create(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: sum, annotations: {
		slurmjob.slinky.slurm.net/exclusive: "false"}}, spec: {minMember: 2, minResources: {cpu: "4", nvidia.com/gpu: "1"}}}`)
	for i := range 2 {
		w.pod(fmt.Sprintf("sum-%d", i), all(labelled(coschedulingLabel, "sum"), cpus("1")))
	}
	w.says(t, "sum-0", "InvalidJob", "asks for nvidia.com/gpu: 1 in its minResources, and its 2 pods for 0 in sum")
	w.merge(t, group, `{"spec":{"minResources":{"nvidia.com/gpu":null}}}`)
	if j := w.job(t, w.bound(t, "sum-0")); j.Asked.CPUsPerTask != slurm.NumberOf(2) {
		t.Errorf("each pod has %v CPUs of the 4 for both", j.Asked.CPUsPerTask)
	}
	w.bound(t, "sum-1")
}

// contradictions has annotations that can't hold together: a sentence, and the next group isn't held up.
func (w *world) contradictions(t *testing.T) {
	group := w.create(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: odd, annotations: {
		slurmjob.slinky.slurm.net/min-nodes: "3", slurmjob.slinky.slurm.net/max-nodes: "2"}}, spec: {minMember: 2}}`)
	for i := range 2 {
		w.pod(fmt.Sprintf("odd-%d", i), labelled(coschedulingLabel, "odd"))
	}
	w.says(t, "odd-0", "InvalidJob", "max-nodes")
	w.merge(t, group, `{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/min-nodes":null}}}`)
	if w.job(t, w.bound(t, "odd-0")).ID != w.job(t, w.bound(t, "odd-1")).ID {
		t.Error("the pods are in two jobs")
	}
}

// groupDisrupted waits until a PodGroup says why its job has ended, or that it has another one.
func (w *world) groupDisrupted(t *testing.T, name string, is metav1.ConditionStatus, reason string) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("that PodGroup %s is disrupted is %s for %s", name, is, reason), func() error {
		group, err := w.kube.SchedulingV1beta1().PodGroups(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(group.Status.Conditions, "DisruptionTarget")
		if c == nil || c.Status != is || c.Reason != reason {
			return fmt.Errorf("%w: conditions %+v", errWait, group.Status.Conditions)
		}
		return nil
	})
}
