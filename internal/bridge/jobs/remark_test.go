package jobs

import (
	"context"
	"testing"

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
