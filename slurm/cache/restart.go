package cache

import (
	"context"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// controllerDiag is a client that can tell when slurmctld started.
type controllerDiag interface {
	Diag(ctx context.Context) (slurm.Diag, error)
}

// controllerWatch notices that slurmctld was started again, which may have lost
// the newest jobs. A quick restart fails no call, as slurmrestd waits for
// slurmctld to come back. It is used by one goroutine.
type controllerWatch struct {
	*Cache
	diag slurm.Diag
	seen bool
}

func (w *controllerWatch) look(ctx context.Context) (bool, error) {
	client, ok := w.client.(controllerDiag)
	if !ok {
		return false, nil
	}
	diag, err := client.Diag(ctx)
	if err != nil {
		w.distrustLater()
		return true, err
	}
	if diag.Since.IsZero() {
		diag.Since = w.diag.Since // slurmctld's first second; the next answer tells
	}
	before, seen := w.diag, w.seen
	w.diag, w.seen = diag, true
	if seen && restarted(before, diag) {
		w.distrustLater()
		poke(w.wake)
	}
	return true, nil
}

// restarted tells whether slurmctld was started between two looks. It counts
// from zero at each midnight UTC too, which is no start.
func restarted(before, now slurm.Diag) bool {
	if before.Since.Equal(now.Since) {
		return now.JobsSubmitted < before.JobsSubmitted
	}
	day := 24 * time.Hour
	midnight := now.Since.Truncate(day)
	rolledOver := before.Since.Before(midnight) && now.Since.Sub(midnight) < 2*time.Minute
	return !rolledOver
}

// distrustLater makes the next good poll read all unfinished jobs again:
// slurmctld was away, and may have lost the newest jobs and given their ids to others.
func (c *Cache) distrustLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspect = true
}

func (c *Cache) distrustIfDue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.suspect {
		return
	}
	c.suspect = false
	for _, g := range c.unfinished {
		g.states = ""
	}
}
