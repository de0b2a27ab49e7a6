package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// markIsRemoved has somebody overwrite what the bridge writes into its jobs. The pod
// that runs goes on, the one that waits keeps its place, and neither has a second job.
func (w *world) markIsRemoved(t *testing.T) {
	waits := w.queued(t, "unmarked")
	runs := w.bound(t, "unmarked-full-0")
	w.kubelet(t, runs.Name, corev1.PodRunning)
	ran := w.job(t, runs)
	for _, j := range []slurm.Job{ran, waits} {
		w.edit(t, j.ID, "AdminComment=", "JobName=renamed", "Comment=mine")
	}
	// What comes later shows that both sides have been looked at.
	w.pod("later", nil)
	w.held(t, "later", "QueuedInSlurm")
	if now, err := w.get(runs.Name); err != nil || now.DeletionTimestamp != nil || now.Labels[v1beta1.LabelJobID] != fmt.Sprint(ran.ID) {
		t.Errorf("the pod that runs is %+v, %v", now, err)
	}
	w.kubelet(t, runs.Name, corev1.PodSucceeded)
	w.jobEnds(t, ran.ID)
	if j := w.job(t, w.bound(t, "unmarked")); j.ID != waits.ID {
		t.Errorf("the pod that waited has job %d, and had %d", j.ID, waits.ID)
	}
	w.eventually(t, "the job has its mark again", func() error {
		j, err := w.slurm.Job(t.Context(), waits.ID)
		if err == nil && j.AdminComment != waits.AdminComment {
			err = fmt.Errorf("%w: %s %q", errWait, j.States, j.AdminComment)
		}
		return err
	})
	w.kubelet(t, "unmarked", corev1.PodSucceeded)
	w.jobEnds(t, waits.ID)
	if ended, err := w.slurm.Job(t.Context(), ran.ID); err != nil || ended.Comment != "mine" {
		t.Errorf("the administrator's comment became %q, %v", ended.Comment, err)
	}
}

// markIsNeverRead has somebody overwrite it before the bridge has read it, at once or while
// the bridge is away: the pods know their jobs.
func (w *world) markIsNeverRead(t *testing.T) {
	w.pod("quick", nil)
	quick := w.job(t, w.bound(t, "quick"))
	w.edit(t, quick.ID, "AdminComment=")
	w.kubelet(t, "quick", corev1.PodSucceeded)
	w.jobEnds(t, quick.ID)

	w.gang(t, "away", 2)
	w.pod("away-0", all(member("away"), shared))
	w.pod("away-1", all(member("away"), shared))
	w.pod("ended", nil)
	pods := []*corev1.Pod{w.bound(t, "away-0"), w.bound(t, "away-1"), w.bound(t, "ended")}
	gang, ended := w.job(t, pods[0]), w.job(t, pods[2])
	for _, pod := range pods {
		w.kubelet(t, pod.Name, corev1.PodRunning)
	}
	w.pod("patient-full", nil)
	patient := w.pod("patient", nil)
	w.held(t, "patient", "QueuedInSlurm")
	waits := w.only(t, patient)
	w.stop()
	w.edit(t, gang.ID, "AdminComment=")
	w.edit(t, waits.ID, "AdminComment=")
	w.edit(t, ended.ID, "AdminComment=mine")
	w.start()
	for _, j := range []slurm.Job{gang, ended, waits} {
		w.eventually(t, fmt.Sprintf("job %d has its mark again", j.ID), func() error {
			now, err := w.slurm.Job(t.Context(), j.ID)
			if err == nil && now.AdminComment != j.AdminComment {
				err = fmt.Errorf("%w: %s %q", errWait, now.States, now.AdminComment)
			}
			return err
		})
	}
	if now := w.only(t, patient); now.ID != waits.ID {
		t.Errorf("the pod that waited has job %d, and had %d", now.ID, waits.ID)
	}
	w.edit(t, ended.ID, "AdminComment=")
	if err := w.slurm.CancelJobs(t.Context(), ended.ID); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the pod of the cancelled job is deleted", func() error {
		pod, err := w.get("ended")
		if err == nil && pod.DeletionTimestamp == nil {
			err = errWait
		}
		return err
	})
	for _, pod := range pods[:2] {
		if now, err := w.get(pod.Name); err != nil || now.DeletionTimestamp != nil || now.Labels[v1beta1.LabelJobID] != fmt.Sprint(gang.ID) {
			t.Errorf("a pod of the gang is %+v, %v", now, err)
		}
		w.kubelet(t, pod.Name, corev1.PodSucceeded)
	}
	w.jobEnds(t, gang.ID)
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

	// Slurm can't requeue what has no script. Whatever it does, the pod has an end or a job.
	running := w.job(t, w.bound(t, "edited"))
	said := w.cluster.Run(t, "bash", "-c", fmt.Sprintf("scontrol requeue %d 2>&1; true", running.ID))
	t.Logf("requeue: %s", said)
	w.eventually(t, "the pod of the requeued job runs in a job, or is deleted", func() error {
		pod, err := w.get("edited")
		if err != nil {
			return err
		}
		j, err := w.slurm.Job(t.Context(), running.ID)
		if err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil && !j.States.Has(slurm.JobRunning) {
			return fmt.Errorf("%w: the job is %s", errWait, j.States)
		}
		return nil
	})
}

// nodeChangesShape gives a node other CPUs while a job runs there: the job goes on, no
// other one is put there by the old size, and the node is registered anew when it is idle.
func (w *world) nodeChangesShape(t *testing.T) {
	w.pod("stretched", nil)
	pod := w.bound(t, "stretched")
	w.kubelet(t, "stretched", corev1.PodRunning)
	name := pod.Spec.NodeName
	resize := func(cpus string) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"allocatable":{"cpu":%q},"capacity":{"cpu":%[1]q}}}`, cpus)
		if _, err := w.kube.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	resize("6")
	w.eventually(t, "the node takes no more jobs", func() error {
		n, err := w.slurm.Node(t.Context(), name)
		if err == nil && (!n.States.Has(slurm.NodeDrain) || n.Reason != "slurm-bridge: its CPUs changed from 4 to 6; it is registered anew once no job runs on it") {
			err = fmt.Errorf("%w: %s %q", errWait, n.States, n.Reason)
		}
		return err
	})
	if now, err := w.get("stretched"); err != nil || now.DeletionTimestamp != nil || !w.job(t, pod).States.Has(slurm.JobRunning) {
		t.Fatalf("the pod is %+v, its job %s, %v", now.ObjectMeta, w.job(t, pod).States, err)
	}
	w.kubelet(t, "stretched", corev1.PodSucceeded)
	shaped := func(cpus int) {
		t.Helper()
		w.eventually(t, fmt.Sprintf("the node has %d CPUs in Slurm", cpus), func() error {
			n, err := w.slurm.Node(t.Context(), name)
			if err == nil && (n.CPUs != cpus || n.States.Has(slurm.NodeDrain)) {
				err = fmt.Errorf("%w: %d, %s", errWait, n.CPUs, n.States)
			}
			return err
		})
	}
	shaped(6)
	w.pod("wide", all(cpus("6"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }))
	w.kubelet(t, w.bound(t, "wide").Name, corev1.PodSucceeded)
	resize("4")
	shaped(4)
}
