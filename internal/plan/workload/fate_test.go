package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

var fateTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func fateJob(id uint32, nodes string, states ...string) slurm.Job {
	return slurm.Job{ID: id, Nodes: nodes, States: slurm.StatesOf(states...), SubmitTime: fateTime, EndTime: fateTime.Add(time.Minute)}
}

func TestFate(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelJobID: "7"}}}
	runs := fateJob(7, "n[1-2]", slurm.JobRunning)
	warned := runs
	warned.PreemptTime = fateTime
	refused := slurm.Job{ID: 7, States: slurm.StatesOf(slurm.JobFailed), SubmitTime: fateTime, EndTime: fateTime}
	for name, c := range map[string]struct {
		jobs []slurm.Job
		want FateKind
	}{
		"no job":                                 {nil, ""},
		"it runs":                                {[]slurm.Job{runs}, ""},
		"it is completing":                       {[]slurm.Job{fateJob(7, "n1", slurm.JobCompleting, slurm.JobRunning)}, ""},
		"it ended":                               {[]slurm.Job{fateJob(7, "n1", slurm.JobTimeout)}, FateEnded},
		"another job of the pod ended":           {[]slurm.Job{fateJob(6, "n1", slurm.JobCancelled)}, ""},
		"it ended and another covers":            {[]slurm.Job{fateJob(7, "n1", slurm.JobCancelled), fateJob(8, "n1", slurm.JobRunning)}, ""},
		"it ended and another waits":             {[]slurm.Job{fateJob(7, "n1", slurm.JobCancelled), fateJob(8, "", slurm.JobPending)}, FateEnded},
		"it has the warning before preemption":   {[]slurm.Job{warned}, FatePreempted},
		"it is suspended":                        {[]slurm.Job{fateJob(7, "n1", slurm.JobSuspended)}, FateSuspended},
		"it waits again":                         {[]slurm.Job{fateJob(7, "", slurm.JobPending)}, FateMoved},
		"it runs elsewhere":                      {[]slurm.Job{fateJob(7, "n[2-3]", slurm.JobRunning)}, FateMoved},
		"its nodes can't be read":                {[]slurm.Job{fateJob(7, "n[", slurm.JobRunning)}, ""},
		"what was refused at once is no job":     {[]slurm.Job{refused}, ""},
		"the one it names waits, another covers": {[]slurm.Job{fateJob(7, "", slurm.JobPending), fateJob(8, "n1", slurm.JobRunning)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FateOf(pod, "n1", c.jobs); got.Kind != c.want || got.End != (c.want != "") {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelJobID: "7"}}}
	for name, c := range map[string]struct {
		jobs []slurm.Job
		want bool
	}{
		"no job":                      {nil, true},
		"an earlier attempt":          {[]slurm.Job{fateJob(5, "", slurm.JobCancelled)}, true},
		"its job, ended":              {[]slurm.Job{fateJob(7, "n1", slurm.JobCancelled)}, false},
		"a later job":                 {[]slurm.Job{fateJob(9, "", slurm.JobPending)}, false},
		"its id, but refused at once": {[]slurm.Job{{ID: 7, States: slurm.StatesOf(slurm.JobFailed)}}, true},
	} {
		if got := Missing(pod, c.jobs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGraceFor(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(30))}}
	for _, c := range []struct {
		left time.Duration
		want string
	}{{time.Minute, "own"}, {30 * time.Second, "own"}, {8500 * time.Millisecond, "8"}, {0, "1"}, {-time.Hour, "1"}} {
		got := "own"
		if g := GraceFor(pod, fateTime.Add(c.left), fateTime); g != nil {
			got = time.Duration(*g).String()[:1]
		}
		if got != c.want {
			t.Errorf("with %s left: %s, want %s", c.left, got, c.want)
		}
	}
	if GraceFor(pod, time.Time{}, fateTime) != nil {
		t.Error("without a time the pod's own grace counts")
	}
}

func TestAdoption(t *testing.T) {
	job := fateJob(7, "n1", slurm.JobRunning)
	job.Flags = []string{slurm.FlagExternalJob}
	job.AdminComment = `{"pods":["ns/a","ns/b"]}`
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "uid-a", Labels: map[string]string{v1beta1.LabelJobID: "7"},
			CreationTimestamp: metav1.NewTime(fateTime.Add(-time.Second)),
		}}
		change(p)
		return p
	}
	mine := pod(func(*corev1.Pod) {})
	if !Adoptable(job, mine) {
		t.Error("a job that a pod names can be taken over")
	}
	for name, other := range map[string]*corev1.Pod{
		"a pod that names another job":    pod(func(p *corev1.Pod) { p.Labels[v1beta1.LabelJobID] = "8" }),
		"a pod that the job doesn't name": pod(func(p *corev1.Pod) { p.Namespace = "other" }),
		"a pod that is younger than it":   pod(func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(fateTime.Add(time.Second)) }),
		"a pod that has ended":            pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	} {
		if Adoptable(job, other) {
			t.Errorf("%s takes the job over", name)
		}
	}
	comment, err := Adopted(job, "here", func(name string) *corev1.Pod {
		if name == "ns/a" {
			return mine
		}
		return nil
	})
	const want = `{"pods":["ns/a","ns/b"],"slinky.slurm.net/v1":{"cluster":"here","workload":"uid-a","podUIDs":["uid-a",""]}}`
	if d := cmp.Diff(want, comment); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	job.AdminComment = comment
	if Adoptable(job, mine) {
		t.Error("a job of another bridge is taken over")
	}
}

func TestOutcome(t *testing.T) {
	ended := func(name string, phase corev1.PodPhase, reason string, codes ...int32) PodEnd {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: corev1.PodStatus{Phase: phase, Reason: reason}}
		for i, code := range codes {
			why := "Error"
			if code == 137 {
				why = "OOMKilled"
			}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: string(rune('a' + i)), State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: why}},
			})
		}
		return EndOf(p)
	}
	good := ended("good", corev1.PodSucceeded, "", 0)
	for _, c := range []struct {
		ends []PodEnd
		code int32
		want string
	}{
		{[]PodEnd{good}, 0, "1 pod succeeded"},
		{[]PodEnd{good, good, EndOf(nil)}, 0, "2 pods succeeded, 1 deleted early"},
		{[]PodEnd{good, ended("bad", corev1.PodFailed, "", 0, 3)}, 3, "1 pod succeeded, 1 failed: ns/bad (exit code 3)"},
		{[]PodEnd{ended("big", corev1.PodFailed, "", 1, 137)}, 137, "1 pod failed: ns/big (exit code 137, OOMKilled)"},
		{[]PodEnd{ended("out", corev1.PodFailed, "Evicted")}, 1, "1 pod failed: ns/out (Evicted)"},
	} {
		o := OutcomeOf(c.ends)
		if d := cmp.Diff(c.want, o.String()); d != "" || o.ExitCode != c.code {
			t.Errorf("exit code %d, want %d; %s", o.ExitCode, c.code, d)
		}
	}
	many := make([]PodEnd, 20)
	for i := range many {
		many[i] = ended("x", corev1.PodFailed, "", 1)
	}
	if o := OutcomeOf(many); o.Failed != 20 || !strings.HasSuffix(o.String(), " and 12 more") {
		t.Errorf("%s", o)
	}
	job := slurm.Job{Flags: []string{slurm.FlagExternalJob}, AdminComment: `{"pods":["ns/a"]}`}
	const want = `{"pods":["ns/a"],"slinky.slurm.net/end":{"succeeded":1,"exitCode":0}}`
	if d := cmp.Diff(want, Ended(job, OutcomeOf([]PodEnd{good}))); d != "" {
		t.Error(d)
	}
}
