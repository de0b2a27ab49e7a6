package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// TestBridge runs the whole bridge between a real API server and a real Slurm.
// The stories follow each other on one cluster of three nodes; each leaves it empty.
func TestBridge(t *testing.T) {
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"nodes are mirrored", w.nodesAreMirrored},
		{"a pod is placed and its end ends the job", w.podIsPlaced},
		{"a deleted pod keeps its job until it is gone", w.deletedPodKeepsJob},
		{"a cancelled job deletes its pod", w.cancelledJobDeletesPod},
		{"what they do is counted", w.isCounted},
		{"a gang starts together", w.gangStartsTogether},
		{"the examples", func(t *testing.T) {
			w.examples(t, "pod.yaml", "single")
			w.examples(t, "gang.yaml", "pair-0", "pair-1")
			w.examples(t, "job.yaml")
			w.examples(t, "gang-job.yaml")
		}},
		{"two gangs on three nodes", w.twoGangs},
		{"gangs and a pod that ask at one instant", w.gangsContend},
		{"a gang shares a node", w.gangSharesNode},
		{"a gang of large and small pods beside a native job", w.mixedGangBesideNative},
		{"pods beside a native job", w.podsBesideNative},
		{"a full cluster queues in Slurm", w.fullClusterQueues},
		{"a pod deleted while its job waits", w.deletedWhileQueued},
		{"bad annotations are refused", w.badAnnotations},
		{"absurd numbers are told", w.absurdNumbers},
		{"rules are kept at submission", w.rulesCount},
		{"pods know their ranks", w.ranksAreTold},
		{"a node that no pod can use", w.noUsableNode},
		{"a node that Kubernetes refuses is given back", w.refusedNode},
		{"never half a gang beside a daemon", w.neverHalfAGang},
		{"a crowded node is avoided", w.crowdedNode},
		{"a gang that no even spread has room for", w.unevenGang},
		{"a gang is packed beside daemons", w.packedBesideDaemons},
		{"what a waiting job excludes follows the nodes", w.nodesChange},
		{"a foreign job is left alone", w.foreignJob},
		{"what happens while the bridge is away", w.away},
		{"slurmrestd behind TLS, its authority and token renewed", w.behindTLS},
		{"a job without its mark", w.markIsRemoved},
		{"a mark that is gone before it was read", w.markIsNeverRead},
		{"jobs that somebody edits", w.jobsAreEdited},
		{"a node changes its shape under a job", w.nodeChangesShape},
		{"one of two schedulers is killed", w.leaderIsKilled},
		{"a node that goes leaves Slurm", w.nodeLeaves},
		{"devices are given as Slurm chose them", w.devicesAreGiven},
		{"pods have claims of their own", w.podsOwnClaims},
		{"claims of all kinds", w.claimsOfAllKinds},
	} {
		if !t.Run(story.name, func(t *testing.T) {
			story.run(t)
			w.empty(t)
		}) {
			return
		}
	}
}

// empty removes what a story left and waits until no job runs.
func (w *world) empty(t *testing.T) {
	t.Helper()
	pods, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			w.remove(t, p.Name)
		}
		w.finish(t, p.Name)
	}
	w.eventually(t, "no job is left", func() error {
		jobs, err := w.slurm.Jobs(t.Context())
		for _, j := range jobs {
			if !j.States.JobEnded() {
				err = fmt.Errorf("%w: job %d is %s", errWait, j.ID, j.States)
			}
		}
		return err
	})
}

// finish plays the kubelet for a pod that is being deleted: its containers end.
func (w *world) finish(t *testing.T, name string) {
	t.Helper()
	w.eventually(t, "pod "+name+" goes", func() error {
		pod, err := w.get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.Spec.NodeName != "" {
			w.kubelet(t, name, corev1.PodSucceeded)
		}
		if err := w.kube.CoreV1().Pods(namespace).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return errWait
	})
}

func (w *world) nodesAreMirrored(t *testing.T) {
	w.eventually(t, "Slurm has the nodes", func() error {
		nodes, err := w.slurm.Nodes(t.Context())
		if err != nil {
			return err
		}
		good := 0
		for _, n := range nodes {
			if n.States.Has(slurm.NodeExternal) && n.CPUs == 4 && n.RealMemory == 8192 && n.Address == "127.0.0.1" &&
				slices.Equal(n.Partitions, []string{"ext"}) {
				good++
			}
		}
		if good != 3 {
			return fmt.Errorf("%w: %+v", errWait, nodes)
		}
		return nil
	})
	w.eventually(t, "Kubernetes' nodes have the taint", func() error {
		nodes, err := w.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := corev1.Taint{Key: v1beta1.TaintManagedNode, Value: config.DefaultSchedulerName, Effect: corev1.TaintEffectNoExecute}
		for _, n := range nodes.Items {
			if !slices.Contains(n.Spec.Taints, want) {
				return fmt.Errorf("%w: node %s has %v", errWait, n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
}

func (w *world) podIsPlaced(t *testing.T) {
	start := time.Now()
	w.pod("one", func(p *corev1.Pod) {
		p.Annotations[v1beta1.AnnotationJobName] = "my-job"
		p.Annotations[v1beta1.AnnotationTimeLimit] = "7"
	})
	pod := w.bound(t, "one")
	t.Logf("created to bound: %v", time.Since(start))
	j := w.job(t, pod)
	if !j.States.Has(slurm.JobRunning) || j.Nodes != pod.Spec.NodeName || j.Name != "my-job" || j.TimeLimit != slurm.NumberOf(7) {
		t.Errorf("pod on %s, job %+v", pod.Spec.NodeName, j)
	}
	if !strings.Contains(j.AdminComment, `"pods":["default/one"]`) || !strings.Contains(j.AdminComment, string(pod.UID)) {
		t.Errorf("admin comment %s", j.AdminComment)
	}
	if pod.Annotations[v1beta1.AnnotationNode] != pod.Spec.NodeName || pod.Annotations[v1beta1.AnnotationCores] != "0-3" || !slices.Contains(pod.Finalizers, v1beta1.FinalizerBridge) {
		t.Errorf("annotations %v, finalizers %v", pod.Annotations, pod.Finalizers)
	}
	w.kubelet(t, "one", corev1.PodRunning)
	w.kubelet(t, "one", corev1.PodSucceeded)
	w.jobEnds(t, j.ID)
	w.eventually(t, "the finalizer is removed", func() error {
		pod, err := w.get("one")
		if err == nil && len(pod.Finalizers) > 0 {
			err = errWait
		}
		return err
	})
}

func (w *world) deletedPodKeepsJob(t *testing.T) {
	w.pod("slow", nil)
	j := w.job(t, w.bound(t, "slow"))
	w.kubelet(t, "slow", corev1.PodRunning)
	w.remove(t, "slow")
	// A second pod's whole life passes before the first one's containers have ended.
	w.pod("other", nil)
	other := w.job(t, w.bound(t, "other"))
	w.kubelet(t, "other", corev1.PodSucceeded)
	w.jobEnds(t, other.ID)
	if now, err := w.slurm.Job(t.Context(), j.ID); err != nil || !now.States.Has(slurm.JobRunning) {
		t.Fatalf("the job of a pod that is still ending is %v (%v)", now.States, err)
	}
	w.kubelet(t, "slow", corev1.PodFailed)
	w.jobEnds(t, j.ID)
}

func (w *world) cancelledJobDeletesPod(t *testing.T) {
	w.pod("victim", nil)
	pod := w.bound(t, "victim")
	w.kubelet(t, "victim", corev1.PodRunning)
	start := time.Now()
	if err := w.slurm.CancelJobs(t.Context(), w.job(t, pod).ID); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the pod is deleted, with a reason", func() error {
		pod, err := w.get("victim")
		if err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return errWait
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Reason == "SlurmCancelled" && strings.Contains(c.Message, "was cancelled") {
				return nil
			}
		}
		return fmt.Errorf("%w: conditions %+v", errWait, pod.Status.Conditions)
	})
	t.Logf("cancelled to deleted: %v", time.Since(start))
}

// gang creates a PodGroup of size members that start together.
// Annotations come in pairs.
func (w *world) gang(t *testing.T, name string, size int32, annotations ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}
	for i := 0; i < len(annotations); i += 2 {
		meta.Annotations[annotations[i]] = annotations[i+1]
	}
	_, err := w.kube.SchedulingV1beta1().PodGroups(namespace).Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: meta,
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: size},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func member(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

func (w *world) gangStartsTogether(t *testing.T) {
	w.pod("pair-0", member("couple"))
	if text := w.held(t, "pair-0", "WaitingForMembers"); !strings.Contains(text, "PodGroup default/couple doesn't exist") {
		t.Errorf("without its PodGroup, the pod says %q", text)
	}
	w.gang(t, "couple", 2)
	w.eventually(t, "the first member waits for the second", func() error {
		if text := w.held(t, "pair-0", "WaitingForMembers"); !strings.Contains(text, "1 of the 2 pods") {
			return fmt.Errorf("%w: %q", errWait, text)
		}
		return nil
	})
	w.pod("pair-1", member("couple"))
	p0, p1 := w.bound(t, "pair-0"), w.bound(t, "pair-1")
	j0, j1 := w.job(t, p0), w.job(t, p1)
	if j0.ID != j1.ID || j0.Name != "couple" || p0.Spec.NodeName == p1.Spec.NodeName {
		t.Errorf("pair-0 on %s in job %d, pair-1 on %s in job %d", p0.Spec.NodeName, j0.ID, p1.Spec.NodeName, j1.ID)
	}
	w.kubelet(t, "pair-0", corev1.PodSucceeded)
	w.eventually(t, "the first member is released", func() error {
		pod, err := w.get("pair-0")
		if err == nil && len(pod.Finalizers) > 0 {
			err = errWait
		}
		return err
	})
	if now, err := w.slurm.Job(t.Context(), j0.ID); err != nil || !now.States.Has(slurm.JobRunning) {
		t.Fatalf("the job of a gang with a member left is %v (%v)", now.States, err)
	}
	// A new member takes the place of the one that ended.
	w.pod("pair-2", member("couple"))
	p2 := w.bound(t, "pair-2")
	if w.job(t, p2).ID != j0.ID || p2.Spec.NodeName != p0.Spec.NodeName {
		t.Errorf("the new member is on %s in job %s, the old one was on %s in job %d",
			p2.Spec.NodeName, p2.Labels[v1beta1.LabelJobID], p0.Spec.NodeName, j0.ID)
	}
	w.kubelet(t, "pair-1", corev1.PodSucceeded)
	w.kubelet(t, "pair-2", corev1.PodFailed)
	w.jobEnds(t, j0.ID)
}

func (w *world) twoGangs(t *testing.T) {
	for _, g := range []string{"a", "b"} {
		w.gang(t, g, 2)
		w.pod(g+"-0", member(g))
		w.pod(g+"-1", member(g))
	}
	var runs, waits string
	w.eventually(t, "one gang runs and the other waits", func() error {
		runs, waits = "", ""
		for _, g := range []string{"a", "b"} {
			n := 0
			for _, m := range []string{"-0", "-1"} {
				pod, err := w.get(g + m)
				if err != nil {
					return err
				}
				if pod.Spec.NodeName != "" {
					n++
				}
			}
			switch n {
			case 2:
				runs = g
			case 0:
				waits = g
			}
		}
		if runs == "" || waits == "" {
			return errWait
		}
		return nil
	})
	w.held(t, waits+"-0", "QueuedInSlurm")
	w.held(t, waits+"-1", "QueuedInSlurm")
	w.kubelet(t, runs+"-0", corev1.PodSucceeded)
	w.kubelet(t, runs+"-1", corev1.PodSucceeded)
	w.bound(t, waits+"-0")
	w.bound(t, waits+"-1")
}

func (w *world) fullClusterQueues(t *testing.T) {
	for i := range 3 {
		w.pod(fmt.Sprintf("full-%d", i), nil)
	}
	for i := range 3 {
		w.bound(t, fmt.Sprintf("full-%d", i))
	}
	w.pod("next", nil)
	if text := w.held(t, "next", "QueuedInSlurm"); !strings.Contains(text, "waits in partition ext") {
		t.Errorf("the pod says %q", text)
	}
	w.kubelet(t, "full-1", corev1.PodSucceeded)
	next, old := w.bound(t, "next"), w.bound(t, "full-1")
	if next.Spec.NodeName != old.Spec.NodeName {
		t.Errorf("next is on %s, the free node was %s", next.Spec.NodeName, old.Spec.NodeName)
	}
}

func (w *world) deletedWhileQueued(t *testing.T) {
	for i := range 3 {
		w.pod(fmt.Sprintf("busy-%d", i), nil)
	}
	for i := range 3 {
		w.bound(t, fmt.Sprintf("busy-%d", i))
	}
	pod := w.pod("unlucky", nil)
	w.held(t, "unlucky", "QueuedInSlurm")
	w.remove(t, "unlucky")
	w.eventually(t, "the job that waits is cancelled", func() error {
		jobs, err := w.slurm.Jobs(t.Context())
		for _, j := range jobs {
			if strings.Contains(j.AdminComment, string(pod.UID)) && !j.States.JobEnded() {
				err = fmt.Errorf("%w: %s", errWait, j.States)
			}
		}
		return err
	})
}

func (w *world) badAnnotations(t *testing.T) {
	w.pod("bad", func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationTimeLimit] = "soon" })
	if text := w.held(t, "bad", "InvalidJob"); !strings.Contains(text, `annotation slurmjob.slinky.slurm.net/timelimit: "soon" is not`) {
		t.Errorf("the pod says %q", text)
	}
	w.pod("old", func(p *corev1.Pod) { p.Annotations["slinky.slurm.net/timelimit"] = "5" })
	w.bound(t, "old")
	w.eventually(t, "the annotation without effect is named", func() error {
		list, err := w.kube.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "IgnoredAnnotations" && e.Regarding.Name == "old" && strings.HasSuffix(e.Note, ": slinky.slurm.net/timelimit") {
				return nil
			}
		}
		return errWait
	})
	w.pod("lost", func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationPartition] = "nowhere" })
	if text := w.held(t, "lost", "RefusedBySlurm"); !strings.Contains(strings.ToLower(text), "partition") {
		t.Errorf("the pod says %q", text)
	}
}

func (w *world) noUsableNode(t *testing.T) {
	w.pod("picky", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} })
	if text := w.held(t, "picky", "NoUsableNode"); !strings.Contains(text, "0 of 3 Slurm nodes can be used") {
		t.Errorf("the pod says %q", text)
	}
	patch := []byte(`{"metadata":{"labels":{"disk":"fast"}}}`)
	if _, err := w.kube.CoreV1().Nodes().Patch(t.Context(), "w2", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod := w.bound(t, "picky"); pod.Spec.NodeName != "w2" {
		t.Errorf("the pod is on %s", pod.Spec.NodeName)
	}
}

func (w *world) foreignJob(t *testing.T) {
	id, err := w.slurm.AllocateNow(t.Context(), slurm.JobRequest{
		Name: "foreign", Partition: "ext", External: true, MinimumNodes: 1, WorkingDirectory: "/tmp",
		Environment: []string{"PATH=/bin"}, AdminComment: `{"pods":["default/nobody"]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	// The bridge has seen it when it has dealt with a pod that came later.
	w.pod("later", nil)
	later := w.job(t, w.bound(t, "later"))
	w.kubelet(t, "later", corev1.PodSucceeded)
	w.jobEnds(t, later.ID)
	if j, err := w.slurm.Job(t.Context(), id); err != nil || !j.States.Has(slurm.JobRunning) {
		t.Errorf("the foreign job is %v (%v)", j.States, err)
	}
	if err := w.slurm.CancelJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// away stops both programs, changes things on either side, and starts them again.
func (w *world) away(t *testing.T) {
	for _, name := range []string{"stays", "cancelled", "deleted"} {
		w.pod(name, nil)
	}
	stays, cancelled, deleted := w.bound(t, "stays"), w.bound(t, "cancelled"), w.bound(t, "deleted")
	waits := w.pod("waits", nil)
	w.held(t, "waits", "QueuedInSlurm")
	for _, name := range []string{"stays", "cancelled", "deleted"} {
		w.kubelet(t, name, corev1.PodRunning)
	}
	w.stop()

	if err := w.slurm.CancelJobs(t.Context(), w.job(t, cancelled).ID); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "deleted")
	w.kubelet(t, "deleted", corev1.PodFailed)
	w.pod("new", nil)
	w.start()

	w.eventually(t, "the pod of the cancelled job is deleted", func() error {
		pod, err := w.get("cancelled")
		if err == nil && pod.DeletionTimestamp == nil {
			err = errWait
		}
		return err
	})
	w.jobEnds(t, w.job(t, deleted).ID)
	w.finish(t, "cancelled")
	w.bound(t, "waits")
	w.bound(t, "new")
	if j := w.job(t, stays); !j.States.Has(slurm.JobRunning) {
		t.Errorf("the job of the pod that stays is %s", j.States)
	}
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, j := range jobs {
		if strings.Contains(j.AdminComment, string(waits.UID)) && !workload.RefusedAtOnce(j) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the pod that waited has %d jobs, not the one from before", n)
	}
}

func (w *world) nodeLeaves(t *testing.T) {
	if err := w.kube.CoreV1().Nodes().Delete(t.Context(), "w3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "Slurm forgets the node", func() error {
		nodes, err := w.slurm.Nodes(t.Context())
		if err == nil && len(nodes) != 2 {
			err = fmt.Errorf("%w: %d nodes", errWait, len(nodes))
		}
		return err
	})
}
