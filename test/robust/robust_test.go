package robust

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	// long, with any value, makes the run the long one.
	long = "SLINKY_TEST_ROBUST"
	// seedVariable is a number that the order of faults and the workloads follow from.
	seedVariable = "SLINKY_ROBUST_SEED"
)

// TestFaults sends workloads through the bridge while something goes wrong: single pods and
// gangs, beside batch jobs of Slurm's own users on the same nodes. An observer looks at both
// sides all the time.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	built := sync.OnceValues(func() (string, error) { return build(t.Context(), dir) })
	t.Run("each process is killed and frozen", func(t *testing.T) { killAndFreeze(t, built) })
	t.Run("leaders fail", func(t *testing.T) { leadersFail(t, built) })
}

// killAndFreeze kills and freezes each process in turn, once in the short run.
func killAndFreeze(t *testing.T, built func() (string, error)) {
	workloads, rounds := 40, 1
	if os.Getenv(long) != "" {
		workloads, rounds = 500, 8
	}
	s := newScene(t, built, 1, workloads)
	faults := rounds * len(s.each())
	t.Logf("%d workloads, each fault %d times", workloads, rounds)
	done := 0
	for range rounds {
		each := s.each()
		s.random.Shuffle(len(each), func(i, j int) { each[i], each[j] = each[j], each[i] })
		for _, f := range each {
			// Work must be under way, so that the fault meets some.
			done++
			s.users.reach(t, workloads*done/(faults+2))
			t.Logf("%s: %s", time.Now().Format(time.TimeOnly), f.name)
			f.strike(t, time.Duration(200+s.random.IntN(1800))*time.Millisecond)
		}
	}
	s.finish(t)
}

// seedOf is the seed that was asked for, or any.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	value := os.Getenv(seedVariable)
	if value == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: it must be a number", seedVariable, value)
	}
	return seed
}

// scene is what goes on during the faults.
type scene struct {
	*world
	random   *rand.Rand
	users    *users
	natives  *natives
	observer *observer
}

func newScene(t *testing.T, built func() (string, error), replicas, workloads int) *scene {
	t.Helper()
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	start := time.Now()
	w := newWorld(t, built, replicas)
	t.Logf("%s=%d; all is built and started after %s", seedVariable, seed, time.Since(start).Round(time.Millisecond))
	s := &scene{world: w, random: random, users: newUsers(w, workloads, random.Uint64())}
	s.observer = w.observe(t)
	s.natives = w.natives(t, random.Uint64())
	s.users.start(t)
	return s
}

// finish lets all work end, and checks all that was seen.
func (s *scene) finish(t *testing.T) {
	t.Helper()
	start := time.Now()
	s.users.reach(t, s.users.total)
	t.Logf("the last workload was done %s after the last fault", time.Since(start).Round(time.Millisecond))
	s.natives.finish()
	s.quiet(t)
	s.observer.finish(t, s.users.made)
	s.users.check(t)
	t.Logf("Slurm took %d jobs of its own users", s.natives.taken.Load())
}
