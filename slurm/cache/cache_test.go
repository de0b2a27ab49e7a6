package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

// start runs a cache on a bubble's clock until the test ends, with all events logged.
func start(t *testing.T, client slurm.Client, o Options) (*Cache, *log) {
	t.Helper()
	c := New(client, o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	l := &log{}
	stop := c.Subscribe(l.handle)
	t.Cleanup(func() { stop(); cancel(); running.Wait() })
	synctest.Wait()
	return c, l
}

// polls lets the clock go on until n slow polls of jobs and one of nodes are done.
func polls(n int) {
	time.Sleep(time.Duration(n)*2*time.Second + time.Millisecond)
	synctest.Wait()
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestJobLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(1, "a", slurm.JobPending)
		c, l := start(t, f, Options{})
		check(t, "synced", c.Synced(), true)
		check(t, "first events", l.take(false), []string{"- > 1/a PENDING"})
		f.counted()

		polls(2)
		check(t, "events of an idle cluster", len(l.take(false)), 0)
		check(t, "calls for an idle cluster", f.counted(), map[string]int{"states": 2})

		f.put(1, "a", slurm.JobRunning)
		polls(1)
		check(t, "events at the start", l.take(false), []string{"1/a PENDING > 1/a RUNNING"})
		a, ok := c.Allocation(1)
		check(t, "allocation", ok && a.Nodes[0].Node == "x1", true)

		f.put(1, "a", slurm.JobCancelled)
		polls(1)
		check(t, "events at the end", l.take(false), []string{"1/a RUNNING > 1/a CANCELLED"})
		_, ok = c.Allocation(1)
		check(t, "an ended job keeps its allocation", ok, true)

		f.set(func() { delete(f.jobs, 1) })
		polls(1)
		check(t, "events when the record goes", l.take(false), []string{"1/a CANCELLED > -"})
		_, ok = c.Job(1)
		check(t, "job is there", ok, false)
	})
}

func TestUnknownIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(1, "a", slurm.JobRunning)
		f.set(func() { f.nodes["x1"] = slurm.Node{Name: "x1"} })
		var failures int
		c, l := start(t, f, Options{OnError: func(error) { failures++ }})
		l.take(false)

		f.set(func() { f.down = &slurm.Error{Kind: slurm.ErrUnavailable} })
		polls(30)
		check(t, "events while Slurm is away", len(l.take(false)), 0)
		check(t, "failures are reported", failures > 0, true)
		check(t, "the age tells", c.Age() > 50*time.Second, true)

		f.set(func() { f.down, f.emptyList = nil, true })
		polls(30)
		check(t, "events after an empty list", len(l.take(false)), 0)
		check(t, "the age after recovery", c.Age() <= 5*time.Second, true)

		f.set(func() { f.broken[1] = &slurm.Error{Kind: slurm.ErrUnavailable} })
		polls(3)
		check(t, "events when the job can't be read", len(l.take(false)), 0)

		f.set(func() { f.broken, f.jobs, f.nodes = nil, nil, nil })
		polls(3)
		check(t, "events when Slurm says so", l.take(true), []string{"1/a RUNNING > -", "x1  > -"})
	})
}

func TestUsedIDIsAnotherJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(5, "old", slurm.JobRunning)
		_, l := start(t, f, Options{})
		l.take(false)
		f.set(func() { f.down = errors.New("crash") })
		polls(1)
		f.set(func() { f.down = nil })
		f.put(5, "new", slurm.JobRunning) // the same state: only the record tells
		polls(3)
		check(t, "events", l.take(false), []string{"5/old RUNNING > -", "- > 5/new RUNNING"})
	})
}

func TestOneBrokenJobHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(1, "a", slurm.JobPending)
		f.put(2, "b", slurm.JobPending)
		f.broken[1] = &slurm.Error{Kind: slurm.ErrUnavailable}
		c, l := start(t, f, Options{})
		check(t, "synced with a job unread", c.Synced(), false)
		check(t, "events", l.take(false), []string{"- > 2/b PENDING"})
		f.put(2, "b", slurm.JobRunning)
		polls(1)
		check(t, "events", l.take(false), []string{"2/b PENDING > 2/b RUNNING"})
		f.set(func() { delete(f.broken, 1) })
		polls(1)
		check(t, "events", l.take(false), []string{"- > 1/a PENDING"})
		check(t, "synced", c.Synced(), true)
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, _ := start(t, f, Options{})
		f.counted()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		check(t, "idle for 10 s", f.counted(), map[string]int{"states": 5, "nodes": 2})

		time.Sleep(time.Second)
		release := c.Await()
		synctest.Wait()
		check(t, "at once with interest", f.counted()["states"], 1)
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		check(t, "fast for 1 s", f.counted()["states"], 10)
		release()
		release()
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		check(t, "slow again for 2 s", f.counted()["states"], 1)

		f.set(func() { f.down = errors.New("away") })
		defer c.Await()()
		time.Sleep(10 * time.Minute)
		if n := f.counted()["states"]; n < 20 || n > 40 {
			t.Errorf("%d polls of a failing server in 10 minutes, want about 27", n)
		}
	})
}

func TestSlowSubscriberGetsOneEventForManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(1, "a", slurm.JobPending)
		c, _ := start(t, f, Options{})
		slow := &log{}
		block, entered := make(chan struct{}), false
		stop := c.Subscribe(func(e Event) {
			slow.handle(e)
			if !entered {
				entered = true
				<-block
			}
		})
		defer stop()
		f.put(1, "a", slurm.JobRunning)
		polls(1)
		f.put(1, "a", slurm.JobCancelled)
		f.put(2, "b", slurm.JobPending)
		polls(1)
		f.set(func() { delete(f.jobs, 2) })
		polls(1)
		close(block)
		synctest.Wait()
		check(t, "events", slow.take(false), []string{"- > 1/a PENDING", "1/a PENDING > 1/a CANCELLED"})
	})
}

func TestReadersOwnWhatTheyGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(1, "a", slurm.JobRunning)
		f.nodes["x1"] = slurm.Node{Name: "x1", Features: []string{"ext"}}
		c, _ := start(t, f, Options{})
		j, _ := c.Job(1)
		j.States[0], j.Flags[0] = "X", "X"
		c.Jobs()[0].States[0] = "X"
		a, _ := c.Allocation(1)
		a.Nodes[0].Cores[0] = 99
		n, _ := c.Node("x1")
		n.Features[0] = "X"
		c.Nodes()[0].Features[0] = "X"
		stop := c.Subscribe(func(e Event) {
			if e.Job != nil {
				e.Job.New.States[0] = "X"
			}
		})
		defer stop()
		synctest.Wait()

		j, _ = c.Job(1)
		check(t, "states", j.States, slurm.StatesOf(slurm.JobRunning))
		check(t, "flags", j.Flags, []string{slurm.FlagExternalJob})
		a, _ = c.Allocation(1)
		check(t, "cores", a.Nodes[0].Cores, []int{0, 1})
		n, _ = c.Node("x1")
		check(t, "features", n.Features, []string{"ext"})
	})
}

func TestArray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		task := func(id, n uint32, state string) {
			f.set(func() {
				f.jobs[id] = slurm.Job{ID: id, SLUID: "s", States: slurm.StatesOf(state),
					ArrayJobID: slurm.NumberOf(6), ArrayTaskID: slurm.NumberOf(uint64(n))}
			})
		}
		task(6, 1, slurm.JobRunning)
		task(7, 2, slurm.JobPending)
		c, l := start(t, f, Options{})
		l.take(false)
		task(7, 2, slurm.JobRunning)
		polls(1)
		check(t, "events", l.take(false), []string{"7/s PENDING > 7/s RUNNING"})
		f.set(func() { delete(f.jobs, 7) })
		polls(1)
		check(t, "events", l.take(false), []string{"7/s RUNNING > -"})
		check(t, "jobs", len(c.Jobs()), 1)
	})
}

func TestManyChangesAreReadAsOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for id := range uint32(500) {
			f.put(id+1, "s", slurm.JobPending)
		}
		c, _ := start(t, f, Options{})
		check(t, "calls", f.counted(), map[string]int{"states": 1, "jobs": 1, "nodes": 1})
		check(t, "jobs", len(c.Jobs()), 500)
	})
}

func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deltaFake{fakeSlurm: newFake()}
		f.nodes["x1"] = slurm.Node{Name: "x1", States: slurm.StatesOf(slurm.NodeIdle)}
		c, l := start(t, f, Options{})
		check(t, "events", l.take(false), []string{"- > x1 IDLE"})
		f.unchanged = true
		f.counted()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		calls := f.counted()
		check(t, "calls when nothing changed", calls["nodes"]*10+calls["nodes unchanged"]+calls["node"], 2)

		// Slurm says "unchanged" too when its last node was deleted.
		f.set(func() { delete(f.nodes, "x1") })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		check(t, "events when the last node goes", l.take(false), []string{"x1 IDLE > -"})
		f.set(func() { f.nodes["x1"] = slurm.Node{Name: "x1", States: slurm.StatesOf(slurm.NodeIdle)} })
		f.unchanged = false
		time.Sleep(7 * time.Second)
		synctest.Wait()
		check(t, "events when it comes back", l.take(false), []string{"- > x1 IDLE"})
		f.set(func() {
			f.nodes["x1"] = slurm.Node{Name: "x1", States: slurm.StatesOf(slurm.NodeIdle), FreeMemory: slurm.NumberOf(1)}
		})
		time.Sleep(7 * time.Second)
		synctest.Wait()
		check(t, "events for free memory", len(l.take(false)), 0)

		// A list that was made before a deletion arrives after the reader's own look.
		f.set(func() {
			f.listing = func() {
				f.set(func() { delete(f.nodes, "x1"); f.listing = nil })
				if there, err := c.RefreshNode(t.Context(), "x1"); there || err != nil {
					t.Errorf("RefreshNode = %v, %v", there, err)
				}
			}
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		_, there := c.Node("x1")
		check(t, "a deleted node is there", there, false)
		check(t, "events", l.take(false), []string{"x1 IDLE > -"})
	})
}
