package placement_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/placement"
)

// fake is a slurmctld of one place.
type fake struct {
	jobs []slurm.Job
	// allocate and submit are what the calls end with; lost makes the job all the same.
	allocate, submit error
	lost             bool
	calls            []string
}

func (f *fake) Jobs(context.Context) ([]slurm.Job, error) {
	f.calls = append(f.calls, "list")
	return slices.Clone(f.jobs), nil
}

func (f *fake) Job(_ context.Context, id uint32) (slurm.Job, error) {
	for _, j := range f.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return slurm.Job{}, slurm.ErrNotFound
}

func (f *fake) Allocation(_ context.Context, id uint32) (slurm.Allocation, error) {
	for _, j := range f.jobs {
		if j.ID == id && j.States.Has(slurm.JobRunning) {
			return slurm.Allocation{JobID: id, Nodes: []slurm.NodeAllocation{{Node: "x1"}}}, nil
		}
	}
	return slurm.Allocation{}, slurm.ErrInvalid
}

func (f *fake) add(req slurm.JobRequest, state string, err error) (uint32, error) {
	if err != nil && !f.lost {
		return 0, err
	}
	id := uint32(len(f.jobs) + 1)
	f.jobs = append(f.jobs, slurm.Job{ID: id, States: slurm.StatesOf(state), AdminComment: req.AdminComment,
		Reason: "Resources", SubmitTime: time.Unix(int64(id), 0)})
	return id, err
}

func (f *fake) AllocateNow(_ context.Context, req slurm.JobRequest) (uint32, error) {
	f.calls = append(f.calls, "allocate")
	return f.add(req, slurm.JobRunning, f.allocate)
}

func (f *fake) Submit(_ context.Context, req slurm.JobRequest) (uint32, error) {
	f.calls = append(f.calls, "submit")
	return f.add(req, slurm.JobPending, f.submit)
}

func (f *fake) CancelJobs(_ context.Context, ids ...uint32) error {
	for i := range f.jobs {
		if slices.Contains(ids, f.jobs[i].ID) {
			f.calls = append(f.calls, "cancel")
			f.jobs[i].States = slurm.StatesOf(slurm.JobCancelled)
		}
	}
	return nil
}

var job = slurm.JobRequest{Name: "w", External: true, AdminComment: "uid-1"}

func mine(id uint32, state string) slurm.Job {
	return slurm.Job{ID: id, States: slurm.StatesOf(state), AdminComment: "uid-1", SubmitTime: time.Unix(int64(id), 0)}
}

func TestPlace(t *testing.T) {
	invalid := &slurm.Error{Kind: slurm.ErrInvalid, Text: "Invalid partition name specified"}
	unavailable := &slurm.Error{Kind: slurm.ErrUnavailable, Text: "no answer"}
	cases := map[string]struct {
		fake  fake
		req   placement.Request
		calls []string
		state placement.State
		id    uint32
		found bool
		why   string
		err   error
	}{
		"room":              {req: placement.Request{New: true}, calls: []string{"allocate"}, state: placement.Running, id: 1},
		"room, looks first": {calls: []string{"list", "allocate"}, state: placement.Running, id: 1},
		"full": {fake: fake{allocate: slurm.ErrBusy}, req: placement.Request{New: true}, calls: []string{"allocate", "submit"},
			state: placement.Queued, id: 1, why: "Resources"},
		"behind others": {req: placement.Request{New: true, Queue: true}, calls: []string{"submit"}, state: placement.Queued, id: 1, why: "Resources"},
		"impossible": {fake: fake{allocate: invalid, submit: invalid}, req: placement.Request{New: true}, calls: []string{"allocate", "submit"},
			state: placement.Refused, why: "Invalid partition name specified"},
		"not allowed": {fake: fake{allocate: slurm.ErrAuth}, req: placement.Request{New: true}, calls: []string{"allocate"}, err: slurm.ErrAuth},
		"answer lost, job made": {fake: fake{allocate: unavailable, lost: true}, req: placement.Request{New: true},
			calls: []string{"allocate", "list"}, state: placement.Running, id: 1, found: true},
		"answer of the queue lost, job made": {fake: fake{submit: unavailable, lost: true}, req: placement.Request{New: true, Queue: true},
			calls: []string{"submit", "list"}, state: placement.Queued, id: 1, found: true, why: "Resources"},
		"no answer, no job": {fake: fake{allocate: unavailable}, req: placement.Request{New: true}, calls: []string{"allocate", "list"}, err: slurm.ErrUnavailable},
		"asked before": {fake: fake{jobs: []slurm.Job{{ID: 7, AdminComment: "other", States: slurm.StatesOf("RUNNING")}, mine(8, "RUNNING")}},
			calls: []string{"list"}, state: placement.Running, id: 8, found: true},
		"the job before has ended": {fake: fake{jobs: []slurm.Job{mine(1, "CANCELLED")}}, calls: []string{"list", "allocate"}, state: placement.Running, id: 2},
		"several": {fake: fake{jobs: []slurm.Job{mine(1, "PENDING"), mine(2, "RUNNING"), mine(3, "RUNNING")}},
			calls: []string{"list", "cancel", "cancel"}, state: placement.Queued, id: 1, found: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.req.Job = job
			p, err := placement.Place(t.Context(), &tc.fake, tc.req)
			if !errors.Is(err, tc.err) || err == nil && tc.err != nil {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if p.State != tc.state || p.Job.ID != tc.id || p.Found != tc.found || p.Reason() != tc.why || !slices.Equal(tc.fake.calls, tc.calls) {
				t.Errorf("placement %+v (%s) by calls %v\nwant %s of job %d (%s), found %v, by %v", p, p.Reason(), tc.fake.calls, tc.state, tc.id, tc.why, tc.found, tc.calls)
			}
			if (p.State == placement.Running) != (len(p.Allocation.Nodes) == 1) {
				t.Errorf("state %s with allocation %+v", p.State, p.Allocation)
			}
		})
	}
}

func TestFindIsUsed(t *testing.T) {
	f := &fake{jobs: []slurm.Job{{ID: 1, States: slurm.StatesOf("RUNNING"), AdminComment: `{"more":"uid-1"}`}}}
	p, err := placement.Place(t.Context(), f, placement.Request{Job: job, Find: func(context.Context) ([]slurm.Job, error) { return f.jobs, nil }})
	if err != nil || !p.Found || p.Job.ID != 1 || len(f.calls) != 0 {
		t.Errorf("%+v, %v by calls %v", p, err, f.calls)
	}
	_, err = placement.Place(t.Context(), f, placement.Request{Job: job, Find: func(context.Context) ([]slurm.Job, error) { return nil, slurm.ErrUnavailable }})
	if !errors.Is(err, slurm.ErrUnavailable) || len(f.calls) != 0 {
		t.Errorf("%v by calls %v: nothing may be made while nobody knows what is there", err, f.calls)
	}
}

func TestOnlyMarkedExternalJobs(t *testing.T) {
	for _, req := range []slurm.JobRequest{{AdminComment: "uid-1"}, {External: true}} {
		if _, err := placement.Place(t.Context(), &fake{}, placement.Request{Job: req}); !errors.Is(err, slurm.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", req, err)
		}
	}
}

func TestCancelInBulk(t *testing.T) {
	f := &fake{}
	var ids []uint32
	for i := range 2500 {
		f.jobs = append(f.jobs, mine(uint32(i+1), "RUNNING"))
		ids = append(ids, uint32(i+1))
	}
	if err := placement.Cancel(t.Context(), f, ids...); err != nil {
		t.Fatal(err)
	}
	for _, j := range f.jobs {
		if !j.States.JobEnded() {
			t.Fatalf("job %d is %v", j.ID, j.States)
		}
	}
}
