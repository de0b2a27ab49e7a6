package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// on makes a pod want one node.
func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

// crowdedNode: on w1 Slurm has a core left, and Kubernetes, which counts the daemon, has none. A pod goes
// elsewhere with its first job; where all else is full it waits there for its turn, and moves when there is room elsewhere.
func (w *world) crowdedNode(t *testing.T) {
	w.daemon("daemon", "w1")
	for i := range 3 {
		name := fmt.Sprintf("crowd-%d", i)
		w.pod(name, all(shared, on("w1")))
		w.bound(t, name)
	}
	before := w.lastJob(t)
	w.pod("elsewhere", shared)
	if p := w.bound(t, "elsewhere"); p.Spec.NodeName == "w1" || w.job(t, p).ID != before+1 {
		t.Errorf("the pod is on %s with job %d, and the last one was %d", p.Spec.NodeName, w.job(t, p).ID, before)
	}
	w.pod("fills-1", all(shared, cpus("4")))
	w.bound(t, "fills-1")
	w.pod("fills-2", all(shared, cpus("3")))
	w.bound(t, "fills-2")

	// Nowhere is room: Slurm gives the core that it takes for free, and the pod waits there.
	w.pod("patient", shared)
	if text := w.held(t, "patient", "NodeStillOccupied"); !strings.Contains(text, "too little cpu there: 5 of 4") {
		t.Errorf("the pod says %q", text)
	}
	id := w.only(t, w.mustGet(t, "patient")).ID
	w.kubelet(t, "crowd-0", corev1.PodSucceeded)
	if p := w.bound(t, "patient"); p.Spec.NodeName != "w1" || w.job(t, p).ID != id {
		t.Errorf("the pod is on %s with job %d, and waited with job %d", p.Spec.NodeName, w.job(t, p).ID, id)
	}

	// The next one waits there as well, until another node has room.
	w.pod("moves", shared)
	w.held(t, "moves", "NodeStillOccupied")
	id = w.only(t, w.mustGet(t, "moves")).ID
	w.kubelet(t, "fills-1", corev1.PodSucceeded)
	if p := w.bound(t, "moves"); p.Spec.NodeName == "w1" || w.job(t, p).ID == id {
		t.Errorf("the pod is on %s with job %d, and waited with job %d", p.Spec.NodeName, w.job(t, p).ID, id)
	}
	w.jobEnds(t, id)
}

func (w *world) mustGet(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := w.get(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lastJob returns the greatest id of a job.
func (w *world) lastJob(t *testing.T) uint32 {
	t.Helper()
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := uint32(0)
	for _, j := range jobs {
		last = max(last, j.ID)
	}
	return last
}

// unevenGang: daemons leave room for three, two and one of a gang's six pods. All have their place, by a heterogeneous
// job, and a seventh would be too many.
func (w *world) unevenGang(t *testing.T) {
	for i, node := range []string{"w1", "w2", "w3"} {
		w.pod("daemon-"+node, all(cpus(fmt.Sprint(i+1)), func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = "default-scheduler", node }))
	}
	gang := func(name string, size int32) {
		w.gang(t, name, size, v1beta1.AnnotationExclusive, "false")
		for i := range size {
			w.pod(fmt.Sprintf("%s-%d", name, i), member(name))
		}
	}
	gang("uneven", 6)
	var pods []*corev1.Pod
	on, jobs := map[string]int{}, map[string]bool{}
	for i := range 6 {
		p := w.bound(t, fmt.Sprintf("uneven-%d", i))
		pods = append(pods, p)
		on[p.Spec.NodeName]++
		jobs[p.Labels[v1beta1.LabelJobID]] = true
	}
	w.cores(t, map[string]string{}, pods...)
	if d := cmp.Diff(map[string]int{"w1": 3, "w2": 2, "w3": 1}, on); d != "" || len(jobs) != 3 {
		t.Errorf("the jobs %v: %s", jobs, d)
	}
	for _, p := range pods {
		w.kubelet(t, p.Name, corev1.PodSucceeded)
	}
	gang("toomany", 7)
	if text := w.held(t, "toomany-0", "NoUsableNode"); !strings.Contains(text, "the 3 nodes that suit have room for 6 of the 7 tasks") {
		t.Errorf("the pod says %q", text)
	}
}
