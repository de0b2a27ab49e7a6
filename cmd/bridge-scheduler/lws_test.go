package main

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/adopt"
	"github.com/slinky-hpc/slinky/slurm"
)

func lwsLabels(set string, group, worker int) func(*corev1.Pod) {
	return labelled("leaderworkerset.sigs.k8s.io/name", set, "leaderworkerset.sigs.k8s.io/group-index", strconv.Itoa(group),
		"leaderworkerset.sigs.k8s.io/worker-index", strconv.Itoa(worker))
}

const statefulSet = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: %s}, spec: {serviceName: x, replicas: 0,
	selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: none}]}}}}`

// leaders creates what a LeaderWorkerSet's controller does: a StatefulSet of leaders.
func (w *world) leaders(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	set := w.create(t, manifest)
	return w.owned(t, set, fmt.Sprintf(statefulSet, set.GetName()))
}

// leader creates the leader of a group, and the StatefulSet of its workers.
func (w *world) leader(t *testing.T, leaders *unstructured.Unstructured, group int, change func(*corev1.Pod)) *unstructured.Unstructured {
	t.Helper()
	set := leaders.GetName()
	pod := w.pod(fmt.Sprintf("%s-%d", set, group), all(under(leaders), lwsLabels(set, group, 0), change))
	as := &unstructured.Unstructured{}
	as.SetAPIVersion("v1")
	as.SetKind("Pod")
	as.SetName(pod.Name)
	as.SetUID(pod.UID)
	return w.owned(t, as, fmt.Sprintf(statefulSet, pod.Name))
}

func (w *world) worker(workers *unstructured.Unstructured, set string, group, i int, change func(*corev1.Pod)) {
	w.pod(fmt.Sprintf("%s-%d-%d", set, group, i), all(under(workers), lwsLabels(set, group, i), change))
}

func (w *world) twoShapes(t *testing.T) {
	leaders := w.leaders(t, `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: vllm, annotations: {
		slurmjob.slinky.slurm.net/timelimit: "8"}}, spec: {replicas: 1, leaderWorkerTemplate: {size: 3}}}`)
	told := func(p *corev1.Pod) {
		adopt.Pod(p, adopt.Facts{SchedulerName: p.Spec.SchedulerName, Environment: "all"})
	}
	workers := w.leader(t, leaders, 0, all(cpus("1"), told))
	w.says(t, "vllm-0", "WaitingForMembers", "LeaderWorkerSet default/vllm-0 has 1 of the 3 pods")
	w.worker(workers, "vllm", 0, 1, all(cpus("3"), told))
	w.worker(workers, "vllm", 0, 2, all(cpus("3"), told))
	leader, first, second := w.bound(t, "vllm-0"), w.bound(t, "vllm-0-1"), w.bound(t, "vllm-0-2")
	of, ofWorkers := w.job(t, leader), w.job(t, first)
	whole := slurm.NumberOf(uint64(of.ID))
	if of.HetJobID != whole || ofWorkers.HetJobID != whole || ofWorkers.ID != of.ID+1 || w.job(t, second).ID != ofWorkers.ID {
		t.Errorf("components %d and %d of %v and %v", of.ID, ofWorkers.ID, of.HetJobID, ofWorkers.HetJobID)
	}
	if of.Name != "vllm-0" || of.Asked.CPUsPerTask != slurm.NumberOf(1) || ofWorkers.Asked.CPUsPerTask != slurm.NumberOf(3) || ofWorkers.TimeLimit != slurm.NumberOf(8) {
		t.Errorf("leader %+v, workers %+v", of, ofWorkers)
	}
	if leader.Spec.NodeName == first.Spec.NodeName || leader.Spec.NodeName == second.Spec.NodeName || first.Spec.NodeName == second.Spec.NodeName {
		t.Error("two pods are on one node")
	}
	w.event(t, "LeaderWorkerSet", "vllm", "Allocated", "all pods")
	// Ranks count through the components, as they do in Slurm.
	for rank, pod := range []*corev1.Pod{leader, first, second} {
		for key, want := range map[string]string{
			v1beta1.AnnotationRank: strconv.Itoa(rank), v1beta1.AnnotationSize: "3", v1beta1.AnnotationNodeCount: "3",
			v1beta1.AnnotationNodeID: strconv.Itoa(rank), v1beta1.AnnotationPeers: "vllm-0,vllm-0-1,vllm-0-2", v1beta1.AnnotationFirstPeer: "vllm-0",
		} {
			if got := pod.Annotations[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", pod.Name, key, got, want)
			}
		}
	}

	// A worker that is made again takes its place.
	w.kubelet(t, "vllm-0-2", corev1.PodFailed)
	w.remove(t, "vllm-0-2")
	w.finish(t, "vllm-0-2")
	w.worker(workers, "vllm", 0, 2, cpus("3"))
	if again := w.bound(t, "vllm-0-2"); w.job(t, again).ID != ofWorkers.ID || again.Spec.NodeName != second.Spec.NodeName {
		t.Errorf("the new worker is on %s in job %s", again.Spec.NodeName, again.Labels[v1beta1.LabelJobID])
	}
	// The whole group is made again, as its set's policy may have it: that is a new job.
	for _, name := range []string{"vllm-0", "vllm-0-1", "vllm-0-2"} {
		w.remove(t, name)
		w.finish(t, name)
	}
	if err := w.client(t).Delete(t.Context(), workers); err != nil {
		t.Fatal(err)
	}
	workers = w.leader(t, leaders, 0, cpus("1"))
	w.worker(workers, "vllm", 0, 1, cpus("3"))
	w.worker(workers, "vllm", 0, 2, cpus("3"))
	if j := w.job(t, w.bound(t, "vllm-0")); j.ID == of.ID {
		t.Error("the new group is in the old job")
	}
	w.bound(t, "vllm-0-1")
	w.jobEnds(t, of.ID)
	w.jobEnds(t, ofWorkers.ID)
}

func (w *world) workersComeLater(t *testing.T) {
	leaders := w.leaders(t, `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: late}, spec: {startupPolicy: LeaderReady,
		leaderWorkerTemplate: {size: 3, workerTemplate: {spec: {containers: [{name: main, image: none, resources: {requests: {cpu: "1", memory: 64Mi}}}]}}}}}`)
	workers := w.leader(t, leaders, 0, cpus("1"))
	leader := w.bound(t, "late-0")
	j := w.job(t, leader)
	if n, _ := j.NodeCount.Get(); n != 3 {
		t.Fatalf("the job has %d nodes, not one for each of the workers to come too", n)
	}
	w.kubelet(t, "late-0", corev1.PodRunning)
	used := map[string]bool{leader.Spec.NodeName: true}
	for i := 1; i < 3; i++ {
		w.worker(workers, "late", 0, i, cpus("1"))
		pod := w.bound(t, fmt.Sprintf("late-0-%d", i))
		if w.job(t, pod).ID != j.ID || used[pod.Spec.NodeName] {
			t.Errorf("worker %d is on %s in job %s", i, pod.Spec.NodeName, pod.Labels[v1beta1.LabelJobID])
		}
		used[pod.Spec.NodeName] = true
	}
}
