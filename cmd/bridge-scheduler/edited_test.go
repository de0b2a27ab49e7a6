package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

// edit changes a job by hand, as an administrator does.
func (w *world) edit(t *testing.T, id uint32, fields ...string) {
	t.Helper()
	w.cluster.Run(t, append([]string{"scontrol", "update", fmt.Sprintf("jobid=%d", id)}, fields...)...)
}

// queued fills the nodes, creates a pod and returns its job, which waits.
func (w *world) queued(t *testing.T, name string) slurm.Job {
	t.Helper()
	for i := range 3 {
		w.pod(fmt.Sprintf("%s-full-%d", name, i), nil)
	}
	for i := range 3 {
		w.bound(t, fmt.Sprintf("%s-full-%d", name, i))
	}
	pod := w.pod(name, nil)
	w.held(t, name, "QueuedInSlurm")
	return w.only(t, pod)
}

// only returns the job of a pod that has a single one.
func (w *world) only(t *testing.T, pod *corev1.Pod) slurm.Job {
	t.Helper()
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []slurm.Job
	for _, j := range jobs {
		if strings.Contains(j.AdminComment, string(pod.UID)) && !j.States.JobEnded() {
			found = append(found, j)
		}
	}
	if len(found) != 1 {
		t.Fatalf("pod %s has %d jobs that have not ended: %+v", pod.Name, len(found), found)
	}
	return found[0]
}

// jobsAreEdited has somebody change what jobs ask for. Each has a clear sentence, and
// nothing else is held up.
func (w *world) jobsAreEdited(t *testing.T) {
	j := w.queued(t, "edited")
	w.edit(t, j.ID, "TimeLimit=77")
	w.cluster.Run(t, "scontrol", "hold", fmt.Sprint(j.ID))
	// Why jobs wait is asked by and by.
	w.patiently(t, func() { w.says(t, "edited", "QueuedInSlurm", "holds it (JobHeld") })
	// Others go on meanwhile.
	w.pod("beside", nil)
	w.held(t, "beside", "QueuedInSlurm")
	w.kubelet(t, "edited-full-1", corev1.PodSucceeded)
	w.bound(t, "beside")
	w.cluster.Run(t, "scontrol", "release", fmt.Sprint(j.ID))
	w.kubelet(t, "edited-full-2", corev1.PodSucceeded)
	now := w.job(t, w.bound(t, "edited"))
	if now.ID != j.ID || now.TimeLimit != slurm.NumberOf(77) {
		t.Errorf("the job is %d with %v minutes, and was %d with 77", now.ID, now.TimeLimit, j.ID)
	}
	w.kubelet(t, "edited", corev1.PodRunning)

	// A gang whose job somebody makes smaller than the gang is never half there: it gets another.
	w.gang(t, "shrunk", 2)
	pods := []*corev1.Pod{w.pod("shrunk-0", member("shrunk")), w.pod("shrunk-1", member("shrunk"))}
	w.held(t, "shrunk-0", "QueuedInSlurm")
	gang := w.only(t, pods[0])
	w.edit(t, gang.ID, "NumNodes=1", "NumTasks=1")
	w.kubelet(t, "beside", corev1.PodSucceeded)
	w.kubelet(t, "edited-full-0", corev1.PodSucceeded)
	p0, p1 := w.bound(t, "shrunk-0"), w.bound(t, "shrunk-1")
	if p0.Spec.NodeName == p1.Spec.NodeName || p0.Labels[v1beta1.LabelJobID] != p1.Labels[v1beta1.LabelJobID] {
		t.Errorf("the gang is on %s in job %s and on %s in job %s", p0.Spec.NodeName, p0.Labels[v1beta1.LabelJobID], p1.Spec.NodeName, p1.Labels[v1beta1.LabelJobID])
	}
	if now := w.job(t, p0); now.ID == gang.ID {
		t.Errorf("the gang is in job %d, which has one node", now.ID)
	}
}
