package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// world is a cache of a server that fails on demand, in a bubble.
type world struct {
	server *faultserver.Server
	client *rest.Client
	cache  *cache.Cache
	events *events
}

// newWorld starts one with nodes x1 and x2, job 1, which runs on x1, and job 2, which waits.
func newWorld(t *testing.T, o cache.Options) world {
	t.Helper()
	w := world{server: faultserver.New(t, faultserver.Options{}), events: &events{t: t}}
	w.server.Change(func(m *faultserver.Model) {
		m.AddNode("x1")
		m.AddNode("x2")
		m.AddJob(time.Now(), "a", slurm.JobRunning, "x1")
		m.AddJob(time.Now(), "b", slurm.JobPending, "")
	})
	var err error
	w.client, err = rest.New(rest.Config{
		URL: "http://slurmrestd", Dial: w.server.Dial, Tokens: rest.StaticToken("t"), Version: "v0.0.45", MaxBody: 1 << 20, Concurrency: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.cache = cache.New(w.client, o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.cache.Run(ctx) })
	stop := w.cache.Subscribe(w.events.handle)
	t.Cleanup(func() { stop(); cancel(); running.Wait() })
	pass(10 * time.Second)
	return w
}

// pass lets the bubble's clock go on.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// events notes what a subscriber hears, and checks that each event follows from
// the one before of the same object.
type events struct {
	t    *testing.T
	mu   sync.Mutex
	log  []string
	jobs map[uint32]slurm.Job
	gone []slurm.Job
	node map[string]slurm.Node
}

func (e *events) handle(ev cache.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs == nil {
		e.jobs, e.node = map[uint32]slurm.Job{}, map[string]slurm.Node{}
	}
	switch {
	case ev.Job != nil:
		e.log = append(e.log, describeJob(ev.Job.Old)+" > "+describeJob(ev.Job.New))
		follow(e, ev.Job.Old, ev.Job.New, e.jobs, func(j slurm.Job) uint32 { return j.ID })
		if ev.Job.New == nil {
			e.gone = append(e.gone, *ev.Job.Old)
		}
	case ev.Node != nil:
		e.log = append(e.log, describeNode(ev.Node.Old)+" > "+describeNode(ev.Node.New))
		follow(e, ev.Node.Old, ev.Node.New, e.node, func(n slurm.Node) string { return n.Name })
	}
}

// follow checks one event against what was known before it, and notes it.
func follow[K comparable, T any](e *events, old, now *T, known map[K]T, key func(T) K) {
	var k K
	switch {
	case old != nil:
		k = key(*old)
		if diff := cmp.Diff(known[k], *old); diff != "" {
			e.t.Errorf("an event of %v doesn't follow from the one before (-before +event's old):\n%s", k, diff)
		}
	case now != nil:
		k = key(*now)
		if _, there := known[k]; there {
			e.t.Errorf("an event says that %v is new, which it isn't", k)
		}
	}
	if now == nil {
		delete(known, k)
		return
	}
	known[k] = *now
}

func describeJob(j *slurm.Job) string {
	if j == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%s %s", j.ID, strings.TrimLeft(strings.TrimPrefix(j.SLUID, "sTEST"), "0"), j.States)
}

func describeNode(n *slurm.Node) string {
	if n == nil {
		return "-"
	}
	return n.Name
}

// take returns the events since the last time.
func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	log := e.log
	e.log = nil
	return log
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Whatever Slurm's answers are but its own word on one object, nothing is gone.
func TestFaultsMakeNothingGone(t *testing.T) {
	proxy := func(status int, body string) faultserver.Fault {
		return faultserver.Reply(faultserver.Answer{Status: status, Type: "application/json", Body: []byte(body)})
	}
	cases := map[string]struct {
		fault faultserver.Fault
		// tells: polls fail, so the age must tell.
		tells bool
	}{
		"no answer":        {faultserver.Hang, true},
		"502 after 10 s":   {faultserver.Delay(10*time.Second, faultserver.BadGateway), true},
		"502":              {faultserver.BadGateway, true},
		"504":              {faultserver.GatewayTimeout, true},
		"reset":            {faultserver.Reset, true},
		"cut off":          {faultserver.CutOff(60), true},
		"flood":            {faultserver.Flood(1<<20 + 1), true},
		"garbage":          {faultserver.Garbage("<html>"), true},
		"nothing":          {faultserver.Garbage(""), true},
		"empty object":     {faultserver.Garbage("{}"), true},
		"empty lists":      {faultserver.Garbage(`{"jobs":[],"nodes":[],"statistics":{},"errors":[]}`), false},
		"null lists":       {faultserver.Garbage(`{"jobs":null,"nodes":null,"errors":[]}`), true},
		"empty and error":  {faultserver.Garbage(`{"jobs":[],"nodes":[],"errors":[{"error_number":-1,"error":"Unspecified error"}]}`), true},
		"unasked 304":      {faultserver.Unchanged, true},
		"proxy's 404":      {proxy(404, `{"code":404}`), true},
		"proxy's 200":      {proxy(200, `{"code":0}`), true},
		"401":              {faultserver.NoToken, true},
		"511":              {faultserver.BadToken, true},
		"wrong version":    {faultserver.WrongVersion, true},
		"wrong type":       {faultserver.ContentType("text/html"), true},
		"200, away":        {faultserver.Refuse(200, 1800, "Unable to contact slurm controller (connect failure)"), true},
		"200, denied":      {faultserver.Refuse(200, 2002, "Access/permission denied"), true},
		"reordered":        {faultserver.Reversed(), false},
		"partial":          {faultserver.Partial(1), false},
		"empty":            {faultserver.Partial(0), false},
		"forgotten":        {faultserver.Forgetting("1", "x2"), false},
		"about another":    {faultserver.Garbage(`{"jobs":[{"job_id":77,"state":["RUNNING"]}],"nodes":[{"name":"x77"}],"errors":[]}`), false},
		"about nobody":     {faultserver.Garbage(`{"jobs":[{}],"nodes":[{}],"errors":[]}`), true},
		"ids out of range": {faultserver.Garbage(`{"jobs":[{"job_id":4294967297,"job_state":["FAILED"]}],"nodes":[{"name":""}],"errors":[]}`), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failures := 0
				w := newWorld(t, cache.Options{OnError: func(error) { failures++ }})
				same(t, "events at the start", len(w.events.take()), 4)
				jobs, nodes := w.cache.Jobs(), w.cache.Nodes()
				failures = 0

				w.server.FailAlways(faultserver.AnyCall, tc.fault)
				pass(3 * time.Minute)
				for _, e := range w.events.take() {
					if strings.HasSuffix(e, "> -") {
						t.Errorf("gone: %s", e)
					}
				}
				for _, j := range jobs {
					now, ok := w.cache.Job(j.ID)
					same(t, "a job", []any{ok, now.SLUID, now.States}, []any{true, j.SLUID, j.States})
				}
				for _, n := range nodes {
					now, ok := w.cache.Node(n.Name)
					same(t, "a node", []any{ok, now.States}, []any{true, n.States})
				}
				if age := w.cache.Age(); tc.tells && (age < 2*time.Minute || failures == 0) {
					t.Errorf("after 3 minutes of faults the age is %v, with %d failures told", age, failures)
				}

				w.server.Heal()
				pass(2 * time.Minute)
				if age := w.cache.Age(); age > 10*time.Second {
					t.Errorf("the age is %v two minutes after the faults", age)
				}
				same(t, "jobs after the faults", w.cache.Jobs(), jobs)
			})
		})
	}
}

func TestCrashGivesIDsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		w.events.take()
		w.server.Crash(1)
		w.server.Change(func(m *faultserver.Model) { m.AddJob(time.Now(), "c", slurm.JobRunning, "x2") })
		pass(time.Minute)
		var jobs []string
		for _, e := range w.events.take() {
			if strings.Contains(e, "/") {
				jobs = append(jobs, e)
			}
		}
		same(t, "events", jobs, []string{"1/1 RUNNING > -", "- > 1/3 RUNNING"})
		a, _ := w.cache.Allocation(1)
		same(t, "the allocation is the new job's", a.Nodes[0].Node, "x2")
	})
}

func TestForgottenNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cache.Options{})
		w.events.take()
		w.server.FailAlways(faultserver.Nodes, faultserver.Forgetting("x2"))
		w.server.Change(func(*faultserver.Model) {}) // so that lists are sent
		pass(time.Minute)
		same(t, "events while only the list lacks the node", w.events.take(), []string(nil))
		w.server.Heal()
		w.server.Change(func(m *faultserver.Model) { m.RemoveNode("x2") })
		pass(time.Minute)
		same(t, "events when Slurm doesn't know it", w.events.take(), []string{"x2 > -"})
	})
}

// TestAnySequence lets jobs and nodes come, change and go while calls fail at
// random. Events must follow from each other, nothing may be gone that is there,
// and in the end the cache and the sum of its events are Slurm's state.
func TestAnySequence(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anySequence(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func anySequence(t *testing.T, r *rand.Rand) {
	w := newWorld(t, cache.Options{Nodes: 3 * time.Second})
	removed := map[string]bool{} // by sluid
	for range 80 {
		w.server.Change(func(m *faultserver.Model) { changeAtRandom(m, r, removed) })
		if r.IntN(3) == 0 {
			w.server.Fail(faultCall(r), randomFault(r))
		}
		pass(time.Duration(r.IntN(4000)) * time.Millisecond)
	}
	w.server.Heal()
	pass(6 * time.Minute)

	for _, j := range w.events.gone {
		if !removed[j.SLUID] {
			t.Errorf("job %d (%s) was called gone, and isn't", j.ID, j.SLUID)
		}
	}
	want, got := map[string]string{}, map[string]string{}
	w.server.Change(func(m *faultserver.Model) {
		for _, j := range m.Jobs {
			want[describeJob(&j.Job)] = j.Nodes
		}
		for _, n := range m.Nodes {
			want[n.Name] = ""
		}
	})
	for _, j := range w.cache.Jobs() {
		got[describeJob(&j)] = j.Nodes
	}
	for _, n := range w.cache.Nodes() {
		got[n.Name] = ""
	}
	same(t, "the cache", got, want)
	told := map[uint32]slurm.Job{}
	for _, j := range w.cache.Jobs() {
		told[j.ID] = j
	}
	same(t, "the sum of the events", w.events.jobs, told)
}

func changeAtRandom(m *faultserver.Model, r *rand.Rand, removed map[string]bool) {
	now := time.Now()
	var ids []uint32
	for id := range m.NextJob {
		if _, ok := m.Jobs[id]; ok {
			ids = append(ids, id)
		}
	}
	pick := func() uint32 {
		if len(ids) == 0 {
			return 0
		}
		return ids[r.IntN(len(ids))]
	}
	switch r.IntN(7) {
	case 0, 1:
		m.AddJob(now, "n", slurm.JobPending, "")
	case 2:
		m.Start(pick(), now)
	case 3:
		m.SetState(pick(), now, slurm.JobCancelled)
	case 4: // Slurm forgets an ended job after a while
		if id := pick(); m.Jobs[id].States.JobEnded() {
			removed[m.Jobs[id].SLUID] = true
			delete(m.Jobs, id)
		}
	case 5:
		m.AddNode("y" + strconv.Itoa(r.IntN(100)+len(m.Nodes)*100))
	case 6:
		if n := len(m.Nodes); n > 2 {
			m.RemoveNode(m.Nodes[n-1].Name)
		}
	}
}

func faultCall(r *rand.Rand) faultserver.Call {
	calls := []faultserver.Call{faultserver.JobStates, faultserver.Jobs, faultserver.Job, faultserver.Resources, faultserver.Nodes, faultserver.Node, faultserver.Diag}
	return calls[r.IntN(len(calls))]
}

func randomFault(r *rand.Rand) faultserver.Fault {
	faults := []faultserver.Fault{
		faultserver.BadGateway, faultserver.GatewayTimeout, faultserver.Reset, faultserver.Unchanged, faultserver.BadToken, faultserver.Reversed(),
		faultserver.Partial(r.IntN(3)), faultserver.CutOff(r.IntN(400)), faultserver.Garbage(`{"jobs":[],"nodes":[],"errors":[]}`),
		faultserver.Delay(time.Duration(r.IntN(20))*time.Second, nil), faultserver.Reply(faultserver.Answer{Status: http.StatusNotFound}),
	}
	return faults[r.IntN(len(faults))]
}
