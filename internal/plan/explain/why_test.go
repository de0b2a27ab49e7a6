package explain

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

var update = flag.Bool("update", false, "write the golden files")

func whyPod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: "train-0", Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{SchedulerName: "slurm-bridge-scheduler"},
	}
	if change != nil {
		change(p)
	}
	return p
}

func says(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func TestWhy(t *testing.T) {
	full := waiting(12, 20, "Resources")
	full.Name, full.User, full.TRESRequested, full.SubmitTime = "train", "slurm", "cpu=8,mem=4G,node=2", queueTime.Add(-12*time.Minute)
	full.Flags, full.AdminComment = []string{slurm.FlagExternalJob}, `{"pods":["ml/train-0","ml/train-1"]}`
	full.StartTime = queueTime.Add(time.Hour)
	turn := full
	turn.Reason, turn.StartTime, turn.TimeLimit = "Priority", time.Time{}, slurm.NumberOf(90)
	first := waiting(10, 30, "Resources")
	first.Name, first.User = "big", "bob"
	limited := full
	limited.Reason, limited.StartTime = "AssocGrpCpuLimit", time.Time{}
	endless := full
	endless.StartTime = queueTime.Add(364 * 24 * time.Hour)
	attempt := full
	attempt.States, attempt.EndTime, attempt.Reason = slurm.StatesOf(slurm.JobFailed), full.SubmitTime, "BadConstraints"
	held := full
	held.Reason = "JobHeldUser"
	constrained := full
	constrained.Reason = "BadConstraints"
	running := full
	running.States, running.Nodes, running.Reason = slurm.StatesOf(slurm.JobRunning), "n[1-2]", "None"
	running.StartTime, running.EndTime, running.TimeLimit = queueTime.Add(-time.Hour), queueTime.Add(26*time.Hour), slurm.NumberOf(27*60)
	ended := running
	ended.States, ended.EndTime = slurm.StatesOf(slurm.JobCancelled), queueTime.Add(-time.Minute)
	ended.AdminComment = `{"pods":["ml/train-0","ml/train-1"],"slinky.slurm.net/end":{"succeeded":1,"failed":1,"exitCode":3,"failures":[{"pod":"ml/train-1","exitCode":3}]}}`
	onNode := func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning }
	assoc := []slurm.Association{{AssociationKey: slurm.AssociationKey{Account: "phys"}, GrpTRES: "cpu=8,node=4"}}
	for name, f := range map[string]Facts{
		"full cluster":    {Pod: whyPod(nil), Job: &full, Queue: cluster(full)},
		"behind others":   {Pod: whyPod(nil), Job: &turn, Queue: cluster(turn, first)},
		"account limit":   {Job: &limited, Queue: cluster(limited), Associations: assoc},
		"endless jobs":    {Pod: whyPod(nil), Job: &endless, Queue: cluster(endless)},
		"attempt":         {Job: &attempt, Queue: cluster(endless)},
		"held":            {Pod: whyPod(nil), Job: &held, Queue: cluster(held)},
		"never fits":      {Pod: whyPod(nil), Job: &constrained, Queue: cluster(constrained)},
		"running":         {Pod: whyPod(onNode), Job: &running, Queue: cluster(running)},
		"running job":     {Job: &running, Queue: cluster(running)},
		"ended job":       {Job: &ended, Queue: cluster(ended)},
		"no usable node":  {Pod: whyPod(says(v1beta1.ConditionSlurmScheduled, corev1.ConditionFalse, "NoUsableNode", "0 of 3 Slurm nodes can be used: 3 lack the label disk=fast")), Queue: cluster()},
		"gang incomplete": {Pod: whyPod(says(v1beta1.ConditionSlurmScheduled, corev1.ConditionFalse, "WaitingForMembers", "PodGroup ml/g has 1 of the 2 pods that must start together")), Queue: cluster()},
		"silent bridge":   {Pod: whyPod(nil), Queue: cluster()},
		"other scheduler": {Pod: whyPod(func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), Queue: cluster()},
		"slurm is away":   {Pod: whyPod(says(v1beta1.ConditionSlurmScheduled, corev1.ConditionFalse, "QueuedInSlurm", "Slurm job 12 waits in partition p")), SlurmError: "no connection"},
		"evicted": {Pod: whyPod(func(p *corev1.Pod) {
			onNode(p)
			says(corev1.DisruptionTarget, corev1.ConditionTrue, "SlurmTimeLimit", "Slurm job 12 reached its time limit")(p)
			p.DeletionTimestamp = &metav1.Time{Time: queueTime}
		}), Queue: cluster()},
		"lost job": {Pod: whyPod(func(p *corev1.Pod) { onNode(p); p.Labels[v1beta1.LabelJobID] = "7" }), Queue: cluster()},
	} {
		t.Run(name, func(t *testing.T) {
			f.Now, f.SchedulerName = queueTime, "slurm-bridge-scheduler"
			golden(t, strings.ReplaceAll(name, " ", "-")+".txt", Why(f).Text())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (go test ./internal/plan/explain -update):\n%s", path, d)
	}
}
