package jobs

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// editable is a Slurm of one job, and a view of it.
type editable struct {
	job     slurm.Job
	updates int
}

func (e *editable) Job(uint32) (slurm.Job, bool)                     { return e.job, true }
func (e *editable) RefreshJob(context.Context, uint32) (bool, error) { return true, nil }

func (e *editable) UpdateJob(_ context.Context, _ uint32, req slurm.JobRequest) error {
	e.job.AdminComment = req.AdminComment
	e.updates++
	return nil
}

func TestMarkIsWrittenAgain(t *testing.T) {
	x := NewIndex("c1")
	marked := job(1, "s1", slurm.JobRunning, "c1", "a")
	e := &editable{job: marked}
	x.Follow(e, 1)
	for _, comment := range []string{"", "mine", `{"pods":["x/y"]}`} {
		e.job.AdminComment = comment
		x.Follow(e, 1)
		if len(x.Naming("a")) != 1 {
			t.Fatalf("with the admin comment %q the job is nobody's", comment)
		}
		lost := x.Unmarked()
		if len(lost) != 1 {
			t.Fatalf("with the admin comment %q, %d jobs lost their mark", comment, len(lost))
		}
		if err := x.Remark(t.Context(), e, e, lost[0]); err != nil || e.job.AdminComment != marked.AdminComment || len(x.Unmarked()) != 0 {
			t.Errorf("the job says %q, %d are left, %v", e.job.AdminComment, len(x.Unmarked()), err)
		}
	}
	// One that has ended stays its pods', and can't be written to.
	e.job.AdminComment, e.job.States = "", slurm.StatesOf(slurm.JobCancelled)
	x.Follow(e, 1)
	if len(x.Naming("a")) != 1 || len(x.Unmarked()) != 0 {
		t.Errorf("an ended job without its mark: %v, %v", x.Naming("a"), x.Unmarked())
	}
}

// What isn't the same job is left alone, whatever its id.
func TestOthersGetNoMark(t *testing.T) {
	for name, now := range map[string]slurm.Job{
		"another job of that id": {ID: 1, SLUID: "s2", States: slurm.StatesOf(slurm.JobRunning)},
		"another bridge's":       job(1, "s1", slurm.JobRunning, "c2", "a"),
	} {
		x := NewIndex("c1")
		e := &editable{job: job(1, "s1", slurm.JobRunning, "c1", "a")}
		x.Follow(e, 1)
		e.job.AdminComment = ""
		x.Follow(e, 1)
		lost := x.Unmarked()
		e.job = now
		if err := x.Remark(t.Context(), e, e, lost[0]); err != nil || e.updates != 0 || len(x.Naming("a")) != 0 {
			t.Errorf("%s: %d updates, %v, %v", name, e.updates, x.Naming("a"), err)
		}
	}
}

// A mark that is gone before anybody has read it is known by the pod.
func TestMarkIsRecalled(t *testing.T) {
	marked := job(1, "s1", slurm.JobRunning, "c1", "a")
	mark, _ := workload.Owned(marked, "c1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p0", UID: "a", Labels: map[string]string{v1beta1.LabelJobID: "1"},
		Annotations: map[string]string{v1beta1.AnnotationJob: workload.RecordFor(marked, mark, "a")},
	}}
	siblings := func() []*corev1.Pod { return []*corev1.Pod{pod} }
	wiped, other := marked, marked
	wiped.AdminComment, other.AdminComment, other.SLUID = "", "", "s2"

	x, e := NewIndex("c1"), &editable{job: wiped}
	x.Follow(e, 1)
	if !x.Recall(e, pod, siblings) || len(x.Naming("a")) != 1 {
		t.Fatal("the pod doesn't know its job")
	}
	if err := x.Remark(t.Context(), e, e, x.Unmarked()[0]); err != nil || e.job.AdminComment != marked.AdminComment || len(x.Unmarked()) != 0 {
		t.Errorf("the job says %q, %d are left, %v", e.job.AdminComment, len(x.Unmarked()), err)
	}
	// So does one that waits: it has no label yet.
	waits := pod.DeepCopy()
	waits.Labels = nil
	x, e = NewIndex("c1"), &editable{job: wiped}
	e.job.States = slurm.StatesOf(slurm.JobPending)
	if !x.Recall(e, waits, func() []*corev1.Pod { return []*corev1.Pod{waits} }) || len(x.Unmarked()) != 1 {
		t.Errorf("the pod that waits doesn't know its job")
	}
	// One that has ended is known, and left alone.
	x, e = NewIndex("c1"), &editable{job: wiped}
	e.job.States = slurm.StatesOf(slurm.JobCancelled)
	if !x.Recall(e, pod, siblings) || len(x.Naming("a")) != 1 || len(x.Unmarked()) != 0 {
		t.Errorf("of an ended job the index has %v, and would mark %v", x.Naming("a"), x.Unmarked())
	}
	// What has its id by now is another's, with and without a mark.
	for _, now := range []slurm.Job{other, job(1, "s2", slurm.JobRunning, "c1", "b"), job(1, "s1", slurm.JobRunning, "c2", "a")} {
		x, e = NewIndex("c1"), &editable{job: now}
		if x.Recall(e, pod, siblings) || len(x.Naming("a")) != 0 {
			t.Errorf("%+v counts as the pod's", now)
		}
	}
}
