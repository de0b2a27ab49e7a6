package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

func shared(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationExclusive] = "false" }

// cores returns the cores that a pod says it has, by node and number, and fails where another has one too.
func (w *world) cores(t *testing.T, taken map[string]string, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		cores, err := tres.ParseIndexes(p.Annotations[v1beta1.AnnotationCores])
		if err != nil || len(cores) == 0 {
			t.Errorf("pod %s has the cores %q (%v)", p.Name, p.Annotations[v1beta1.AnnotationCores], err)
		}
		for _, c := range cores {
			key := fmt.Sprint(p.Spec.NodeName, " core ", c)
			if other := taken[key]; other != "" {
				t.Errorf("%s is given to %s and to %s", key, other, p.Name)
			}
			taken[key] = p.Name
		}
	}
}

// native starts a job of Slurm's own on some cores of a node, and returns them as taken.
func (w *world) native(t *testing.T, node string, cpus uint32) (uint32, map[string]string) {
	t.Helper()
	id, err := w.slurm.AllocateNow(t.Context(), slurm.JobRequest{
		Name: "native", Partition: "ext", External: true, MinimumNodes: 1, MaximumNodes: 1, CPUsPerTask: cpus, MemoryPerNode: slurm.NumberOf(100),
		RequiredNodes: []string{node}, WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.slurm.Allocation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for _, c := range a.Nodes[0].Cores {
		taken[fmt.Sprint(node, " core ", c)] = "native"
	}
	return id, taken
}

func (w *world) gangSharesNode(t *testing.T) {
	w.gang(t, "team", 4, v1beta1.AnnotationExclusive, "false")
	var pods []*corev1.Pod
	for i := range 4 {
		w.pod(fmt.Sprintf("team-%d", i), member("team"))
	}
	for i := range 4 {
		pods = append(pods, w.bound(t, fmt.Sprintf("team-%d", i)))
	}
	w.cores(t, map[string]string{}, pods...)
	for _, p := range pods[1:] {
		if p.Spec.NodeName != pods[0].Spec.NodeName || p.Labels[v1beta1.LabelJobID] != pods[0].Labels[v1beta1.LabelJobID] {
			t.Errorf("%s is on %s, %s on %s", p.Name, p.Spec.NodeName, pods[0].Name, pods[0].Spec.NodeName)
		}
	}
	if j := w.job(t, pods[0]); j.CPUs != slurm.NumberOf(4) || j.NodeCount != slurm.NumberOf(1) {
		t.Errorf("the job has %v CPUs on %v nodes", j.CPUs, j.NodeCount)
	}
}

// A gang of a large pod and four small ones beside a native job: two small ones fit
// in one task of the large one's size, so the job is three tasks.
func (w *world) mixedGangBesideNative(t *testing.T) {
	id, taken := w.native(t, "w2", 2)
	w.gang(t, "crew", 5, v1beta1.AnnotationExclusive, "false")
	names := []string{"crew-0", "crew-1", "crew-2", "crew-3", "crew-4"}
	for i, name := range names {
		size := cpus("1")
		if i == 0 {
			size = cpus("2")
		}
		w.pod(name, all(member("crew"), size))
	}
	var pods []*corev1.Pod
	for _, name := range names {
		pods = append(pods, w.bound(t, name))
	}
	w.cores(t, taken, pods...)
	if j := w.job(t, pods[0]); j.Tasks != slurm.NumberOf(3) || j.CPUs != slurm.NumberOf(6) {
		t.Errorf("the job has %v tasks and %v CPUs", j.Tasks, j.CPUs)
	}
	if err := w.slurm.CancelJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (w *world) podsBesideNative(t *testing.T) {
	id, taken := w.native(t, "w1", 2)
	only := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "w1"} }
	w.pod("side-0", all(shared, only))
	w.pod("side-1", all(shared, only))
	w.cores(t, taken, w.bound(t, "side-0"), w.bound(t, "side-1"))
	w.pod("side-2", all(shared, only))
	w.held(t, "side-2", "QueuedInSlurm")
	w.pod("whole", only)
	w.held(t, "whole", "QueuedInSlurm")
	if err := w.slurm.CancelJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	p := w.bound(t, "side-2")
	w.cores(t, map[string]string{}, p, w.bound(t, "side-0"), w.bound(t, "side-1"))
	if whole, err := w.get("whole"); err != nil || whole.Spec.NodeName != "" || slices.Contains([]string{"w2", "w3"}, p.Spec.NodeName) {
		t.Errorf("whole is on %q, side-2 on %s (%v)", whole.Spec.NodeName, p.Spec.NodeName, err)
	}
}
