package cache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// S093: no lock is held over a call to Slurm or to a subscriber.
func TestNothingWaitsForAPollOrASubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		stuck := make(chan struct{})
		stop := w.cache.Subscribe(func(cache.Event) { <-stuck })
		defer stop()
		defer close(stuck)
		w.server.FailAlways(faultserver.JobStates, faultserver.Hang)
		w.server.FailAlways(faultserver.Nodes, faultserver.Hang)
		pass(10 * time.Second) // now a poll waits for its answer

		start := time.Now()
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if i%10 == 0 {
					// Its answer doesn't come either: it returns by its own deadline.
					w.server.Fail(faultserver.Node, faultserver.Hang)
					if _, err := w.cache.RefreshNode(ctx, "x1"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("refresh: %v", err)
					}
					return
				}
				if there, err := w.cache.RefreshJob(ctx, 1); err != nil && !errors.Is(err, context.DeadlineExceeded) || err == nil && !there {
					t.Errorf("refresh: %v, %v", there, err)
				}
				if _, ok := w.cache.Job(1); !ok {
					t.Error("no job")
				}
				w.cache.Await()()
			})
		}
		callers.Wait()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("100 callers took %v", took)
		}
	})
}

// S095: one object that can't be read hides no other, and is read again by itself.
func TestOneUnreadableObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		w.server.Fail(faultserver.Node, faultserver.Refuse(500, -1, "Unspecified error"), faultserver.Refuse(500, -1, "Unspecified error"), faultserver.Refuse(500, -1, "Unspecified error"))
		if _, err := w.cache.RefreshNode(t.Context(), "x1"); !errors.Is(err, slurm.ErrUnavailable) {
			t.Errorf("the unreadable one: %v", err)
		}
		if there, err := w.cache.RefreshNode(t.Context(), "x2"); !there || err != nil {
			t.Errorf("the other: %v, %v", there, err)
		}
		if there, err := w.cache.RefreshNode(t.Context(), "x1"); !there || err != nil {
			t.Errorf("the first, later: %v, %v", there, err)
		}
	})
}

// S096: who wrote and looks again sees the effect, whatever a poll brings that began before.
func TestReadYourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{Slow: 30 * time.Second, Nodes: 30 * time.Second})
		ctx := t.Context()
		refresh := func(id uint32) (slurm.Job, bool) {
			t.Helper()
			if _, err := w.cache.RefreshJob(ctx, id); err != nil {
				t.Fatal(err)
			}
			return w.cache.Job(id)
		}
		id, err := w.client.Submit(ctx, slurm.JobRequest{Name: "new", Partition: "ext", External: true, Comment: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if j, ok := refresh(id); !ok || j.Comment != "one" {
			t.Errorf("after the submit: %+v, %v", j, ok)
		}
		if err := w.client.UpdateJob(ctx, id, slurm.JobRequest{Comment: "two"}); err != nil {
			t.Fatal(err)
		}
		if j, _ := refresh(id); j.Comment != "two" {
			t.Errorf("after the update the comment is %q", j.Comment)
		}

		release := make(chan struct{})
		w.server.FailAlways(faultserver.JobStates, faultserver.Stale(release))
		w.server.FailAlways(faultserver.Nodes, faultserver.Stale(release))
		w.server.Change(func(*faultserver.Model) {})
		pass(31 * time.Second) // polls have begun, their answers are made
		w.server.Change(func(m *faultserver.Model) { delete(m.Jobs, id) })
		if err := w.client.DeleteNode(ctx, "x2"); err != nil {
			t.Fatal(err)
		}
		if _, ok := refresh(id); ok {
			t.Error("the job is there after its record went")
		}
		if there, err := w.cache.RefreshNode(ctx, "x2"); there || err != nil {
			t.Errorf("the node after its deletion: %v, %v", there, err)
		}
		synctest.Wait()
		w.events.take()
		close(release)
		synctest.Wait()
		same(t, "events of what was polled before", w.events.take(), []string(nil))
		_, job := w.cache.Job(id)
		_, node := w.cache.Node("x2")
		same(t, "the job and the node are back", []bool{job, node}, []bool{false, false})
	})
}

// S097: what stays the same makes no event, in whatever order it comes. Free
// memory alone makes none, see Subscribe.
func TestNoEventWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		w.events.take()
		reorder := faultserver.Edit(func(list []any) []any {
			for _, e := range list {
				for _, key := range []string{"state", "job_state"} {
					if words, ok := e.(map[string]any)[key].([]any); ok && len(words) > 1 {
						words[0], words[1] = words[1], words[0]
					}
				}
			}
			return list
		})
		for _, f := range []faultserver.Fault{reorder, faultserver.Reversed()} {
			w.server.FailAlways(faultserver.AnyCall, f)
			w.server.Change(func(m *faultserver.Model) { m.Node("x1").FreeMemory = slurm.NumberOf(rand.Uint64N(1000)) })
			pass(6 * time.Minute)
		}
		same(t, "events", w.events.take(), []string(nil))
	})
}

// S098: an object that goes between one look and the next is no panic.
func TestObjectsGoAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		ctx := t.Context()
		var loops sync.WaitGroup
		loop := func(do func()) {
			loops.Go(func() {
				for range 100 {
					do()
				}
			})
		}
		loop(func() {
			w.server.Change(func(m *faultserver.Model) {
				if m.Node("x2") == nil {
					m.AddNode("x2")
				} else {
					m.RemoveNode("x2")
				}
				delete(m.Jobs, 2)
			})
		})
		loop(func() { w.cache.RefreshNode(ctx, "x2"); w.cache.RefreshJob(ctx, 2) })
		loop(func() { w.cache.Node("x2"); w.cache.Job(2); w.cache.Allocation(2); w.cache.Jobs(); w.cache.Nodes() })
		loop(func() { w.cache.Subscribe(func(cache.Event) {})() })
		loops.Wait()
	})
}

// S107: a job that is in no list yet, right after its submission, hasn't ended.
func TestNewJobMissingInAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		w.events.take()
		w.server.FailAlways(faultserver.JobStates, faultserver.Partial(0))
		id, err := w.client.Submit(t.Context(), slurm.JobRequest{Name: "new", Partition: "ext", External: true})
		if err != nil {
			t.Fatal(err)
		}
		if there, err := w.cache.RefreshJob(t.Context(), id); !there || err != nil {
			t.Errorf("the new job: %v, %v", there, err)
		}
		pass(time.Minute)
		if j, ok := w.cache.Job(id); !ok || j.States.JobEnded() {
			t.Errorf("the new job after a minute of empty lists: %v, %v", j.States, ok)
		}
	})
}

// A job that was read after the list was asked for is newer than the list, and isn't read again for it.
func TestJobReadDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{Slow: time.Second, Details: -1})
		w.server.FailAlways(faultserver.JobStates, func(e faultserver.Exchange) {
			old := e.Normal()
			faultserver.Delay(900*time.Millisecond, func(e faultserver.Exchange) { e.Answer(old) })(e)
		})
		pass(5 * time.Second)
		w.server.Requests()
		const jobs = 20
		for range jobs {
			id, err := w.client.Submit(t.Context(), slurm.JobRequest{Name: "new", Partition: "ext", External: true})
			if err != nil {
				t.Fatal(err)
			}
			if there, err := w.cache.RefreshJob(t.Context(), id); !there || err != nil {
				t.Fatalf("the new job: %v, %v", there, err)
			}
			pass(130 * time.Millisecond)
		}
		pass(5 * time.Second)
		if n := faultserver.Count(w.server.Requests(), faultserver.Job); n != jobs {
			t.Errorf("%d jobs were read %d times", jobs, n)
		}
	})
}

// S110: a cache may be started and stopped at any moment, among readers, while
// polls take longer than their period.
func TestStartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultserver.New(t, faultserver.Options{})
		s.Change(func(m *faultserver.Model) { m.AddNode("x1"); m.AddJob(time.Now(), "a", slurm.JobRunning, "x1") })
		client, err := rest.New(rest.Config{URL: "http://slurmrestd", Dial: s.Dial, Tokens: rest.StaticToken("t"), Version: "v0.0.45"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		s.FailAlways(faultserver.JobStates, faultserver.Delay(3*time.Second, nil))
		r := rand.New(rand.NewPCG(1, 1))
		for range 1000 {
			c := cache.New(client, cache.Options{Slow: time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { c.Run(ctx) })
			running.Go(func() { c.Await()(); c.Jobs(); c.Age() })
			running.Go(func() { c.Subscribe(func(cache.Event) {})() })
			time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
			cancel()
			running.Wait()
		}
	})
}

// S110: polls that take longer than their period don't overlap, so what is
// published last was asked for last; and an empty answer with an error replaces nothing.
func TestSlowPollsStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{Slow: time.Second})
		w.server.FailAlways(faultserver.JobStates, faultserver.Delay(3*time.Second, nil))
		w.server.Fail(faultserver.JobStates, faultserver.Garbage(`{"jobs":[],"errors":[{"error_number":-1,"error":"Unspecified error"}]}`))
		pass(time.Minute)
		w.events.take()
		w.server.Change(func(m *faultserver.Model) { m.Start(2, time.Now()) })
		pass(30 * time.Second)
		w.server.Change(func(m *faultserver.Model) { m.SetState(2, time.Now(), slurm.JobCancelled) })
		pass(30 * time.Second)
		var jobs []string
		for _, e := range w.events.take() {
			if e[0] == '2' {
				jobs = append(jobs, e)
			}
		}
		same(t, "events", jobs, []string{"2/2 PENDING > 2/2 RUNNING", "2/2 RUNNING > 2/2 CANCELLED"})
	})
}
