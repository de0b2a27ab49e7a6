package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// TestEnds follows pods and jobs to their ends between a real API server and a
// real Slurm with its database.
func TestEnds(t *testing.T) {
	w := newWorldOn(t, slurmtest.Options{WithAccounting: true, Nodes: 1, Config: []string{
		"PreemptType=preempt/partition_prio", "PreemptMode=CANCEL", "OverTimeLimit=0",
		// The same nodes, for what must run now and for what gets a warning.
		"PartitionName=urgent Nodes=ns_ext State=UP PriorityTier=10",
		"PartitionName=patient Nodes=ns_ext State=UP PriorityTier=1 GraceTime=120",
	}})
	for _, story := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the nodes come", w.nodesCome},
		{"a user without an account is told so", w.withoutAccount},
		{"how pods ended is in Slurm's accounting", w.outcomeIsAccounted},
		{"a full cluster is explained", w.fullIsExplained},
		{"an account's limit is explained", w.limitIsExplained},
		{"a time limit ends the pod with a reason", w.timeLimit},
		{"preemption without grace", w.preempted},
		{"the end of a suspended job's pod", w.suspended},
		{"a lost node", w.nodeFails},
		{"a lost job is made again", w.lostJob},
		{"a lost job whose node is taken ends its pod", w.lostJobTaken},
		{"a pod on a dead kubelet", w.deadKubelet},
		{"the published bridge's job is taken over", w.publishedJob},
		{"what an uninstalled bridge leaves is removed", w.uninstalled},
		// Late: the warning reaches no slurmd, so Slurm takes the node for dead.
		{"preemption with grace warns the pod", w.preemptedWithGrace},
		{"a node that doesn't respond is registered anew", w.nodeIsCured},
		{"a sink slurmd answers for external nodes", w.sinkAnswers},
		{"slurmrestd is reached through the API server", w.throughAPIServer},
	} {
		if !t.Run(story.name, func(t *testing.T) {
			story.run(t)
			w.empty(t)
		}) {
			return
		}
	}
}

func (w *world) nodesCome(t *testing.T) {
	w.eventually(t, "Slurm has the nodes", func() error {
		nodes, err := w.slurm.Nodes(t.Context())
		external := 0
		for _, n := range nodes {
			if n.States.Has(slurm.NodeExternal) {
				external++
			}
		}
		if err == nil && external != 3 {
			err = fmt.Errorf("%w: %d external nodes", errWait, external)
		}
		return err
	})
}

// withoutAccount has a Slurm that enforces associations and doesn't know the bridge's user.
func (w *world) withoutAccount(t *testing.T) {
	w.pod("stranger", nil)
	w.says(t, "stranger", "RefusedBySlurm", "the job's user needs an account")
	w.cluster.Run(t, "sacctmgr", "-i", "add", "account", "pods")
	w.cluster.Run(t, "sacctmgr", "-i", "add", "user", "slurm", "account=pods")
	w.pod("member", nil)
	w.bound(t, "member")
}

// terminated plays the kubelet for a container that has ended.
func (w *world) terminated(t *testing.T, name string, phase corev1.PodPhase, code int32, reason string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"main","image":"none","imageID":"","ready":false,"restartCount":0,
		"state":{"terminated":{"exitCode":%d,"reason":%q}}}]}}`, phase, code, reason)
	_, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// disrupted waits until a pod is being deleted for a reason, and returns the sentence.
func (w *world) disrupted(t *testing.T, name, reason string) string {
	t.Helper()
	var text string
	w.eventually(t, "pod "+name+" is deleted for "+reason, func() error {
		pod, err := w.get(name)
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Reason == reason && pod.DeletionTimestamp != nil {
				text = c.Message
				return nil
			}
		}
		return fmt.Errorf("%w: deletion %v, conditions %+v", errWait, pod.DeletionTimestamp, pod.Status.Conditions)
	})
	return text
}

// told waits for an event on an object.
func (w *world) told(t *testing.T, kind, name, reason string) string {
	t.Helper()
	var note string
	w.eventually(t, fmt.Sprintf("%s %s has an event %s", kind, name, reason), func() error {
		list, err := w.kube.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.Name == name {
				note = e.Note
				return nil
			}
		}
		return errWait
	})
	return note
}

func (w *world) outcomeIsAccounted(t *testing.T) {
	w.gang(t, "mixed", 2)
	w.pod("mixed-0", member("mixed"))
	w.pod("mixed-1", member("mixed"))
	w.pod("fine", nil)
	w.bound(t, "mixed-0")
	j, fine := w.job(t, w.bound(t, "mixed-1")), w.job(t, w.bound(t, "fine"))
	w.terminated(t, "mixed-0", corev1.PodSucceeded, 0, "Completed")
	w.eventually(t, "the first member is released", func() error {
		pod, err := w.get("mixed-0")
		if err == nil && len(pod.Finalizers) > 0 {
			err = errWait
		}
		return err
	})
	// It is gone when the job ends, and counts all the same.
	if err := w.kube.CoreV1().Pods(namespace).Delete(t.Context(), "mixed-0", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	w.terminated(t, "mixed-1", corev1.PodFailed, 137, "OOMKilled")
	w.terminated(t, "fine", corev1.PodSucceeded, 0, "Completed")
	w.jobEnds(t, j.ID)
	w.jobEnds(t, fine.ID)

	ended, err := w.slurm.Job(t.Context(), j.ID)
	const sentence = "1 pod succeeded, 1 failed: default/mixed-1 (exit code 137, OOMKilled)"
	if err != nil || ended.Comment != sentence {
		t.Errorf("comment %q, %v", ended.Comment, err)
	}
	c, _ := workload.ParseComment(ended)
	if c.End == nil || c.End.Succeeded != 1 || c.End.Failed != 1 || c.End.ExitCode != 137 {
		t.Errorf("admin comment %s", ended.AdminComment)
	}
	w.eventually(t, "Slurm's database has the outcome", func() error {
		text := w.cluster.Run(t, "sacct", "-a", "-X", "-n", "-P", "-o", "jobid,derivedexitcode,admincomment")
		for _, want := range []string{
			fmt.Sprintf("%d|137:0|{", j.ID), `"slinky.slurm.net/end":{"succeeded":1,"failed":1,"exitCode":137,`,
			fmt.Sprintf("%d|0:0|{", fine.ID), `"slinky.slurm.net/end":{"succeeded":1,"exitCode":0}`,
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%w: %q is not in\n%s", errWait, want, text)
			}
		}
		return nil
	})
}

func (w *world) timeLimit(t *testing.T) {
	w.pod("long", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Sim", Name: "sim", UID: "1", Controller: new(true)}}
	})
	j := w.job(t, w.bound(t, "long"))
	w.kubelet(t, "long", corev1.PodRunning)
	if err := w.slurm.UpdateJob(t.Context(), j.ID, slurm.JobRequest{TimeLimit: slurm.NumberOf(1)}); err != nil {
		t.Fatal(err)
	}
	w.cluster.Run(t, "scontrol", "update", fmt.Sprintf("jobid=%d", j.ID), "EndTime=now+1") // a job can't end in the second of its start
	w.patiently(t, func() {
		if text := w.disrupted(t, "long", v1beta1.ReasonSlurmTimeLimit); !strings.Contains(text, "reached its time limit") {
			t.Errorf("the pod says %q", text)
		}
	})
	w.told(t, "Pod", "long", v1beta1.ReasonSlurmTimeLimit)
	if note := w.told(t, "Sim", "sim", v1beta1.ReasonSlurmTimeLimit); !strings.HasSuffix(note, ": its pods are deleted") {
		t.Errorf("the owner is told %q", note)
	}
}

// patiently waits longer: slurmctld looks for jobs whose time is over every 30 s.
func (w *world) patiently(t *testing.T, wait func()) {
	t.Helper()
	old := w.patience
	w.patience = 90 * time.Second
	defer func() { w.patience = old }()
	wait()
}

// urgent starts a foreign job on a whole node of its own choice, and returns it.
func (w *world) urgent(t *testing.T, node string) uint32 {
	t.Helper()
	id, err := w.slurm.Submit(t.Context(), slurm.JobRequest{
		Name: "urgent", Partition: "urgent", External: true, MinimumNodes: 1, Exclusive: true, RequiredNodes: []string{node},
		WorkingDirectory: "/tmp", Environment: []string{"PATH=/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) drop(t *testing.T, id uint32) {
	t.Helper()
	if err := w.slurm.CancelJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (w *world) preempted(t *testing.T) {
	w.gang(t, "weak", 1)
	w.pod("weak-0", member("weak"))
	pod := w.bound(t, "weak-0")
	w.kubelet(t, "weak-0", corev1.PodRunning)
	id := w.urgent(t, pod.Spec.NodeName)
	defer w.drop(t, id)
	w.disrupted(t, "weak-0", v1beta1.ReasonSlurmPreempted)
	w.told(t, "PodGroup", "weak", v1beta1.ReasonSlurmPreempted)
	w.groupDisrupted(t, "weak", metav1.ConditionTrue, "PreemptionByScheduler")
	// It is no more once the group has its nodes again.
	w.finish(t, "weak-0")
	w.pod("weak-1", member("weak"))
	w.bound(t, "weak-1")
	w.groupDisrupted(t, "weak", metav1.ConditionFalse, "Scheduled")
	if j, err := w.slurm.Job(t.Context(), id); err != nil || j.States.JobEnded() {
		t.Errorf("the foreign job is %v (%v)", j.States, err)
	}
}

func (w *world) preemptedWithGrace(t *testing.T) {
	w.pod("warned", func(p *corev1.Pod) {
		p.Annotations[v1beta1.AnnotationPartition] = "patient"
		p.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	})
	pod := w.bound(t, "warned")
	j := w.job(t, pod)
	w.kubelet(t, "warned", corev1.PodRunning)
	id := w.urgent(t, pod.Spec.NodeName)
	defer w.drop(t, id)
	text := w.disrupted(t, "warned", v1beta1.ReasonSlurmPreempted)
	if !strings.Contains(text, "has to make room for a job of higher priority by ") {
		t.Errorf("the pod says %q", text)
	}
	if now, err := w.slurm.Job(t.Context(), j.ID); err != nil || !now.States.Has(slurm.JobRunning) {
		t.Errorf("the job is %v in its grace time (%v)", now.States, err)
	}
	pod, err := w.get("warned")
	if err != nil {
		t.Fatal(err)
	}
	if grace := *pod.DeletionGracePeriodSeconds; grace < 60 || grace > 120 {
		t.Errorf("the pod has %d s to end, the job 120", grace)
	}
	// The pod makes room early: so does the job.
	w.terminated(t, "warned", corev1.PodFailed, 143, "Error")
	w.jobEnds(t, j.ID)
}

func (w *world) suspended(t *testing.T) {
	w.pod("frozen", nil)
	j := w.job(t, w.bound(t, "frozen"))
	w.kubelet(t, "frozen", corev1.PodRunning)
	w.cluster.Run(t, "scontrol", "suspend", fmt.Sprint(j.ID))
	w.disrupted(t, "frozen", v1beta1.ReasonSlurmSuspended)
	w.terminated(t, "frozen", corev1.PodFailed, 143, "Error")
	w.jobEnds(t, j.ID)
}

func (w *world) nodeFails(t *testing.T) {
	w.pod("unlucky", nil)
	pod := w.bound(t, "unlucky")
	w.kubelet(t, "unlucky", corev1.PodRunning)
	if err := w.slurm.UpdateNode(t.Context(), pod.Spec.NodeName, slurm.NodeUpdate{State: slurm.NodeDown, Reason: "smoke"}); err != nil {
		t.Fatal(err)
	}
	w.disrupted(t, "unlucky", v1beta1.ReasonSlurmNodeFail)
	if err := w.slurm.UpdateNode(t.Context(), pod.Spec.NodeName, slurm.NodeUpdate{State: "RESUME"}); err != nil {
		t.Fatal(err)
	}
}

// forgetJobs makes slurmctld lose all jobs, as if it had been killed before it had saved them.
func (w *world) forgetJobs(t *testing.T) {
	t.Helper()
	w.cluster.Kill(t, "slurmctld")
	w.cluster.Run(t, "bash", "-c", "rm -f /cluster/ctld/job_state* /cluster/ctld/last_config_lite*")
	w.cluster.Restart(t, "slurmctld")
	w.eventually(t, "slurmctld is back", func() error {
		_, err := w.slurm.JobStates(t.Context())
		return err
	})
}

func (w *world) lostJob(t *testing.T) {
	for _, name := range []string{"kept-0", "kept-1"} {
		w.pod(name, nil)
	}
	before := map[string]slurm.Job{}
	for _, name := range []string{"kept-0", "kept-1"} {
		before[name] = w.job(t, w.bound(t, name))
		w.kubelet(t, name, corev1.PodRunning)
	}
	w.forgetJobs(t)
	for name, old := range before {
		w.patiently(t, func() {
			w.eventually(t, "pod "+name+" has a job again", func() error {
				pod, err := w.get(name)
				if err != nil {
					return err
				}
				if pod.DeletionTimestamp != nil {
					t.Fatalf("the pod is deleted: %+v", pod.Status.Conditions)
				}
				jobs, err := w.slurm.Jobs(t.Context())
				if err != nil {
					return err
				}
				for _, j := range jobs {
					if j.States.Has(slurm.JobRunning) && fmt.Sprint(j.ID) == pod.Labels[v1beta1.LabelJobID] && j.SLUID != old.SLUID &&
						j.Nodes == pod.Spec.NodeName && strings.Contains(j.AdminComment, string(pod.UID)) {
						return nil
					}
				}
				return errWait
			})
		})
	}
	w.told(t, "Pod", "kept-0", v1beta1.ReasonSlurmJobLost)
	w.kubelet(t, "kept-0", corev1.PodSucceeded)
	pod, err := w.get("kept-0")
	if err != nil {
		t.Fatal(err)
	}
	w.jobEnds(t, w.job(t, pod).ID)
}

func (w *world) lostJobTaken(t *testing.T) {
	w.pod("robbed", nil)
	pod := w.bound(t, "robbed")
	w.kubelet(t, "robbed", corev1.PodRunning)
	// The bridge is away while Slurm forgets the job and gives the node to others.
	w.stop()
	w.forgetJobs(t)
	id := w.urgent(t, pod.Spec.NodeName)
	defer w.drop(t, id)
	w.eventually(t, "the other job runs", func() error {
		j, err := w.slurm.Job(t.Context(), id)
		if err == nil && !j.States.Has(slurm.JobRunning) {
			err = errWait
		}
		return err
	})
	w.start()
	w.patiently(t, func() {
		if text := w.disrupted(t, "robbed", v1beta1.ReasonSlurmJobLost); !strings.Contains(text, "others have its node") {
			t.Errorf("the pod says %q", text)
		}
	})
}

func (w *world) deadKubelet(t *testing.T) {
	w.pod("orphan", nil)
	pod := w.bound(t, "orphan")
	j := w.job(t, pod)
	w.kubelet(t, "orphan", corev1.PodRunning)
	w.setReady(t, pod.Spec.NodeName, corev1.ConditionUnknown)
	w.remove(t, "orphan")
	// The job stays: the containers may be alive. A pod that comes and goes meanwhile shows that the bridge has looked.
	w.pod("other", nil)
	other := w.job(t, w.bound(t, "other"))
	w.kubelet(t, "other", corev1.PodSucceeded)
	w.jobEnds(t, other.ID)
	if now, err := w.slurm.Job(t.Context(), j.ID); err != nil || !now.States.Has(slurm.JobRunning) {
		t.Fatalf("the job of a pod on a silent node is %v (%v)", now.States, err)
	}
	// Somebody who knows says that they aren't.
	if err := w.kube.CoreV1().Pods(namespace).Delete(t.Context(), "orphan", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	w.jobEnds(t, j.ID)
	w.eventually(t, "the pod is gone", func() error {
		_, err := w.get("orphan")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errWait)
	})
	w.setReady(t, pod.Spec.NodeName, corev1.ConditionTrue)
}

func (w *world) setReady(t *testing.T, node string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	_, err := w.kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// publishedJob lets the bridge find a pod and a job as the published bridge leaves them.
func (w *world) publishedJob(t *testing.T) {
	w.stop()
	pod := w.pod("theirs", nil)
	id, err := w.slurm.AllocateNow(t.Context(), slurm.JobRequest{
		Name: "theirs", Partition: "ext", External: true, MinimumNodes: 1, WorkingDirectory: "/tmp",
		Environment: []string{"PATH=/bin"}, AdminComment: `{"pods":["default/theirs"]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := w.slurm.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"%d"},"annotations":{%q:%q},"finalizers":[%q]}}`,
		v1beta1.LabelJobID, id, v1beta1.AnnotationNode, j.Nodes, v1beta1.FinalizerBridge)
	if _, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), "theirs", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Target: corev1.ObjectReference{Kind: "Node", Name: j.Nodes}}
	if err := w.kube.CoreV1().Pods(namespace).Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.kubelet(t, "theirs", corev1.PodRunning)
	w.start()
	w.eventually(t, "the job has the bridge's mark", func() error {
		j, err := w.slurm.Job(t.Context(), id)
		if err == nil && !strings.Contains(j.AdminComment, string(pod.UID)) {
			err = errWait
		}
		return err
	})
	w.kubelet(t, "theirs", corev1.PodSucceeded)
	w.jobEnds(t, id)
}

// uninstalled uses the commands of docs/bridge.md for what a bridge that was removed first leaves.
func (w *world) uninstalled(t *testing.T) {
	w.pod("left", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/kept"} })
	j := w.job(t, w.bound(t, "left"))
	w.stop()
	defer w.start()
	page, err := os.ReadFile("../../docs/bridge.md")
	if err != nil {
		t.Fatal(err)
	}
	const ofTheBridge = `s/^JobId=\([0-9]*\) .*JobState=\(RUNNING\|PENDING\) .*AdminComment={"pods":.*/\1/p`
	sed := exec.CommandContext(t.Context(), "sed", "-n", ofTheBridge)
	sed.Stdin = strings.NewReader(w.cluster.Run(t, "scontrol", "--oneliner", "show", "jobs"))
	found, err := sed.Output()
	if err != nil || strings.TrimSpace(string(found)) != fmt.Sprint(j.ID) {
		t.Errorf("the jobs of the bridge are %q, want %d; %v", found, j.ID, err)
	}
	patch := fmt.Sprintf(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, v1beta1.FinalizerBridge)
	if !strings.Contains(string(page), ofTheBridge) || !strings.Contains(string(page), patch[:len(patch)-1]) {
		t.Error("docs/bridge.md has other commands")
	}
	pod, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), "left", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil || len(pod.Finalizers) != 1 || pod.Finalizers[0] != "example.com/kept" {
		t.Fatalf("finalizers %v, %v", pod.Finalizers, err)
	}
	if _, err := w.kube.CoreV1().Pods(namespace).Patch(t.Context(), "left", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.kubelet(t, "left", corev1.PodSucceeded)
}
