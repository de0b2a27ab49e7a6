package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// A view that Slurm doesn't renew any more says that it is stale, however good it was.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		const limit = 15 * time.Second
		if err := w.cache.Fresh(limit); err != nil {
			t.Errorf("a view that was just read: %v", err)
		}
		for _, call := range []faultserver.Call{faultserver.JobStates, faultserver.Nodes} {
			w.server.FailAlways(call, faultserver.BadGateway)
		}
		pass(time.Minute)
		if err := w.cache.Fresh(limit); !errors.Is(err, slurm.ErrStale) {
			t.Errorf("a view that is a minute old: %v", err)
		}
		w.server.Heal()
		pass(time.Minute)
		if err := w.cache.Fresh(limit); err != nil {
			t.Errorf("after Slurm answers again: %v", err)
		}
	})
	if err := cache.New(nil, cache.Options{}).Fresh(time.Hour); !errors.Is(err, slurm.ErrStale) {
		t.Errorf("a view that was never read: %v", err)
	}
}
