package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// calls sums up what was asked.
func calls(counted map[string]int) (n int) {
	for _, v := range counted {
		n += v
	}
	return n
}

// TestIdleLoad is the promise of two small calls in a period, whoever reads.
func TestIdleLoad(t *testing.T) {
	for name, consumers := range map[string]int{"nobody": 0, "many": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newControllerFake()
				for id := range uint32(1000) {
					f.put(id+1, "s", slurm.JobRunning)
				}
				for _, name := range []string{"x1", "x2", "x3"} {
					f.nodes[name] = slurm.Node{Name: name, States: slurm.StatesOf(slurm.NodeIdle)}
				}
				c, _ := start(t, f, Options{})
				for range consumers {
					defer c.Subscribe(func(Event) { c.Job(1) })()
				}
				f.unchanged = true
				time.Sleep(2 * time.Minute) // until it counts as idle
				synctest.Wait()
				f.counted()
				const periods = 600
				for range periods {
					time.Sleep(2 * time.Second)
					synctest.Wait()
					c.JobsOfUser("alice")
				}
				counted := f.counted()
				t.Logf("in %d periods: %v", periods, counted)
				if n := calls(counted); n > 2*periods {
					t.Errorf("%d calls in %d periods: %v, want two in each at most", n, periods, counted)
				}
				check(t, "lists of all jobs or nodes", counted["jobs"]+counted["nodes"], 0)
				for _, call := range []string{"states", "nodes unchanged", "diag", "node", "job"} {
					if counted[call] == 0 {
						t.Errorf("no call %q in %d periods", call, periods)
					}
				}
			})
		})
	}
}

func TestWaitingJobsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControllerFake()
		for id := range uint32(3000) {
			f.put(id+1, "s", slurm.JobPending)
		}
		c, _ := start(t, f, Options{})
		defer c.Await()()
		f.unchanged = true
		time.Sleep(time.Minute)
		synctest.Wait()
		f.counted()
		time.Sleep(time.Minute)
		synctest.Wait()
		counted := f.counted()
		if n := counted["job"]; n > 16*60+32 {
			t.Errorf("%d jobs were read again in a minute, want 16 a second at most", n)
		}
		check(t, "quick polls in a minute", counted["states"] > 500, true)
	})
}

func TestSlowListIsAskedForLess(t *testing.T) {
	for takes, want := range map[time.Duration]int{
		time.Millisecond:       1500, // each 100 ms
		50 * time.Millisecond:  300,
		400 * time.Millisecond: 63,
		3 * time.Second:        10,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newControllerFake()
			f.put(1, "a", slurm.JobRunning)
			f.takes = takes
			c, _ := start(t, f, Options{})
			defer c.Await()()
			time.Sleep(time.Minute)
			synctest.Wait()
			f.counted()
			time.Sleep(150 * time.Second)
			synctest.Wait()
			check(t, fmt.Sprintf("lists of %s in 150 s", takes), f.counted()["states"], want)
		})
	}
}

// TestMidnight: slurmctld's statistics begin anew, and that is no start.
func TestMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControllerFake()
		f.put(1, "a", slurm.JobRunning)
		f.diag = slurm.Diag{Since: time.Now().Add(-time.Hour), JobsSubmitted: 10}
		_, l := start(t, f, Options{})
		f.unchanged = true
		l.take(false)
		f.counted()
		f.set(func() {
			f.diag = slurm.Diag{Since: time.Now().Truncate(24 * time.Hour).Add(24*time.Hour + time.Second)}
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check(t, "reads after midnight", f.counted()["job"], 0)

		f.put(1, "b", slurm.JobRunning)
		f.set(func() { f.diag.Since = f.diag.Since.Add(time.Hour) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check(t, "events after a start", l.take(false), []string{"1/a RUNNING > -", "- > 1/b RUNNING"})
	})
}

// TestIdlePeriod: a cluster without jobs is asked less, until there is one or a reader knows better.
func TestIdlePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControllerFake()
		c, _ := start(t, f, Options{Slow: 500 * time.Millisecond, Idle: 10 * time.Second})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		f.counted()
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, "lists of states in an idle minute", f.counted()["states"], 6)

		f.put(1, "a", slurm.JobRunning)
		c.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		_, known := c.Job(1)
		check(t, "the job is known at once", known, true)
		f.counted()
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, "lists of states in a minute with a job", f.counted()["states"], 120)
		c.Wake()
		synctest.Wait()
		check(t, "lists that a wake brings where there is a job", f.counted()["states"], 0)
	})
}

// TestRefreshedJobIsReadOnce: the list of states that follows tells nothing new.
func TestRefreshedJobIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControllerFake()
		c, _ := start(t, f, Options{WithoutAllocations: true})
		f.put(1, "a", slurm.JobRunning)
		f.counted()
		if known, err := c.RefreshJob(t.Context(), 1); err != nil || !known {
			t.Fatal(known, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		counted := f.counted()
		check(t, "reads of the job", counted["job"], 1)
		check(t, "reads of what it was granted", counted["allocation"], 0)
	})
}

// TestRunningJobsAreWatched: while a job waits, those that run are read again for Slurm's
// warning that they are to make room, within a bounded load; on a cluster where none waits, not at all.
func TestRunningJobsAreWatched(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newControllerFake()
				for id := range uint32(10) {
					f.put(id+1, "s", slurm.JobRunning)
				}
				f.put(20, "large", slurm.JobRunning)
				f.set(func() { f.jobs[20] = slurm.Job{ID: 20, SLUID: "large", States: slurm.StatesOf(slurm.JobRunning)} })
				if waits {
					f.put(11, "s", slurm.JobPending)
				}
				c, _ := start(t, f, Options{Slow: 500 * time.Millisecond, Details: 1, Watch: slurm.Job.External, WithoutAllocations: true})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				f.set(func() {
					for _, id := range []uint32{3, 20} {
						j := f.jobs[id]
						j.PreemptTime = time.Now()
						f.jobs[id] = j
					}
				})
				f.counted()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				reads := f.counted()["job"]
				if j, _ := c.Job(3); j.PreemptTime.IsZero() == waits || reads > 21 || !waits && reads > 0 {
					t.Errorf("after ten seconds and %d reads the job is to make room at %v", reads, j.PreemptTime)
				}
				if j, _ := c.Job(20); !j.PreemptTime.IsZero() {
					t.Error("a job that isn't watched was read again")
				}
			})
		})
	}
}

// TestDetailsAreBounded: how many jobs wait doesn't matter.
func TestDetailsAreBounded(t *testing.T) {
	for details, most := range map[int]int{4: 121 * 4, -1: 0} {
		t.Run(fmt.Sprint(details), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newControllerFake()
				for id := range uint32(2000) {
					f.put(id+1, "s", slurm.JobPending)
				}
				start(t, f, Options{Slow: 500 * time.Millisecond, Details: details})
				time.Sleep(time.Minute)
				synctest.Wait()
				f.counted()
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := f.counted()["job"]; n > most || n < most/2 {
					t.Errorf("%d jobs were read again in a minute, want about %d", n, most)
				}
			})
		})
	}
}

// TestForgottenJobs: slurmctld forgets jobs that ended, as many a second as it had started. One is
// asked for, and stands for all; if it is there the list wasn't whole, and each is asked for.
func TestForgottenJobs(t *testing.T) {
	for name, c := range map[string]struct {
		gone                    func(*fakeSlurm)
		reads, ended, waitingOn int
	}{
		"forgotten":              {func(f *fakeSlurm) { forget(f, 1, 300) }, 1, 0, 1},
		"one of those that wait": {func(f *fakeSlurm) { forget(f, 1, 301) }, 2, 0, 0},
		"an empty list":          {func(f *fakeSlurm) { f.emptyList = true }, 302, 300, 1},
		"all but one":            {func(f *fakeSlurm) { forget(f, 1, 299) }, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newControllerFake()
				for id := range uint32(300) {
					f.put(id+1, "e", slurm.JobCompleted)
				}
				f.put(301, "w", slurm.JobPending)
				view, w := start(t, f, Options{Slow: time.Second, Details: -1})
				w.take(true)
				f.counted()
				f.set(func() { c.gone(f.fakeSlurm) })
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				check(t, "single reads", f.counted()["job"], c.reads)
				check(t, "jobs that ended", len(view.JobsInState(slurm.JobCompleted)), c.ended)
				check(t, "jobs that wait", len(view.JobsInState(slurm.JobPending)), c.waitingOn)
				check(t, "events", len(w.take(true)), 301-c.ended-c.waitingOn)
			})
		})
	}
}

func forget(f *fakeSlurm, from, to uint32) {
	for id := from; id <= to; id++ {
		delete(f.jobs, id)
	}
}
