package cache

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/slinky-hpc/slinky/slurm"
)

// startingSlurm answers for a job only once its allocation has been asked for, and may
// say of that first that there is none yet.
type startingSlurm struct {
	*fakeSlurm
	asked chan struct{}
	early bool
}

func (f *startingSlurm) JobRecords(ctx context.Context, id uint32) ([]slurm.Job, error) {
	<-f.asked
	return f.fakeSlurm.JobRecords(ctx, id)
}

func (f *startingSlurm) Allocation(ctx context.Context, id uint32) (slurm.Allocation, error) {
	select {
	case <-f.asked:
	default:
		defer close(f.asked)
		if f.early {
			return slurm.Allocation{}, &slurm.Error{Kind: slurm.ErrInvalid, Op: "read"}
		}
	}
	return f.fakeSlurm.Allocation(ctx, id)
}

// A job that was just started is read together with what it holds, whatever comes in between.
func TestRefreshStarted(t *testing.T) {
	for name, x := range map[string]struct {
		state string
		early bool
		holds bool
	}{
		"runs":                              {slurm.JobRunning, false, true},
		"starts between the answers":        {slurm.JobRunning, true, true},
		"was cancelled meanwhile":           {slurm.JobCancelled, false, false},
		"waits, as it was requeued at once": {slurm.JobPending, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &startingSlurm{newFake(), make(chan struct{}), x.early}
				f.put(7, "a", x.state)
				c := New(f, Options{})
				there, err := c.RefreshStarted(t.Context(), 7)
				if !there || err != nil {
					t.Fatalf("the job: %v, %v", there, err)
				}
				_, holds := c.Allocation(7)
				check(t, "it holds something", holds, x.holds)
			})
		})
	}
}
