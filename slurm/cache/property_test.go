package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

// replica is a view made of events alone. It notes events that don't follow from those before.
type replica struct {
	mu    sync.Mutex
	jobs  map[uint32]slurm.Job
	nodes map[string]slurm.Node
	wrong []string
}

func newReplica() *replica {
	return &replica{jobs: map[uint32]slurm.Job{}, nodes: map[string]slurm.Node{}}
}

func (r *replica) handle(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Job != nil {
		apply(r, r.jobs, e.Job.Old, e.Job.New, func(j *slurm.Job) uint32 { return j.ID })
		if e.Job.Old != nil && e.Job.New != nil && e.Job.Old.SLUID != e.Job.New.SLUID {
			r.wrong = append(r.wrong, fmt.Sprintf("job %s became job %s", e.Job.Old.SLUID, e.Job.New.SLUID))
		}
		return
	}
	// No event tells of the free memory.
	for _, n := range []*slurm.Node{e.Node.Old, e.Node.New} {
		if n != nil {
			n.FreeMemory = slurm.Number{}
		}
	}
	apply(r, r.nodes, e.Node.Old, e.Node.New, func(n *slurm.Node) string { return n.Name })
}

func apply[K comparable, V any](r *replica, view map[K]V, old, now *V, key func(*V) K) {
	k := key(firstOf(now, old))
	known, ok := view[k]
	if ok != (old != nil) || ok && !reflect.DeepEqual(known, *old) {
		r.wrong = append(r.wrong, fmt.Sprintf("%v: the event's old is %+v, but before it was %+v, %v", k, old, known, ok))
	}
	if now == nil {
		delete(view, k)
		return
	}
	view[k] = *now
}

func firstOf[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// world is a scripted Slurm that lives at random.
type world struct {
	*controllerFake
	r      *rand.Rand
	nextID uint32
	runs   int
}

var lifeOf = [][]string{
	{slurm.JobPending}, {slurm.JobRunning}, {slurm.JobCompleted, slurm.JobCompleting}, {slurm.JobCompleted},
}

// step lets one thing happen, and returns its name.
func (w *world) step() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	steps := []struct {
		name string
		do   func()
	}{
		{"submit", w.submit}, {"submit", w.submit}, {"submit", w.submit},
		{"submit array", w.submitArray},
		{"go on", w.goOn}, {"go on", w.goOn}, {"go on", w.goOn}, {"go on", w.goOn},
		{"purge", func() { w.purge(func(j slurm.Job) bool { return j.States.JobEnded() }) }},
		{"crash", w.crash},
		{"away", func() { w.down = &slurm.Error{Kind: slurm.ErrUnavailable} }},
		{"back", func() { w.down = nil }}, {"back", func() { w.down = nil }},
		{"empty list", func() { w.emptyList = !w.emptyList }},
		{"broken job", func() { w.broken[1+w.r.Uint32N(w.nextID+1)] = errors.New("garbage") }},
		{"mended jobs", func() { clear(w.broken) }},
		{"node", w.changeNode}, {"node", w.changeNode},
	}
	s := steps[w.r.IntN(len(steps))]
	s.do()
	return s.name
}

func (w *world) newJob() slurm.Job {
	w.nextID++
	w.runs++
	return slurm.Job{ID: w.nextID, SLUID: fmt.Sprint("s", w.runs), States: slurm.StatesOf(lifeOf[w.r.IntN(2)]...),
		User: fmt.Sprint("u", w.r.IntN(3)), Partition: []string{"a", "b", "a,b"}[w.r.IntN(3)], Nodes: fmt.Sprint("x", w.r.IntN(3)),
		AdminComment: fmt.Sprint("w", w.r.IntN(5)), Flags: [][]string{nil, {slurm.FlagExternalJob}}[w.r.IntN(2)]}
}

func (w *world) submit() {
	j := w.newJob()
	w.jobs[j.ID] = j
}

// submitArray makes an array of some tasks with a record each.
func (w *world) submitArray() {
	array := w.nextID + 1
	for task := range 1 + w.r.Uint64N(3) {
		j := w.newJob()
		j.ArrayJobID, j.ArrayTaskID = slurm.NumberOf(uint64(array)), slurm.NumberOf(task)
		w.jobs[j.ID] = j
	}
}

func (w *world) anyJob() (slurm.Job, bool) {
	if len(w.jobs) == 0 {
		return slurm.Job{}, false
	}
	var all []uint32
	for id := range w.jobs {
		all = append(all, id)
	}
	slices.Sort(all)
	return w.jobs[all[w.r.IntN(len(all))]], true
}

// goOn moves a job on in its life, or puts it back into the queue.
func (w *world) goOn() {
	j, ok := w.anyJob()
	if !ok || j.States.JobEnded() && !j.States.Has(slurm.JobCompleting) {
		return
	}
	at := slices.IndexFunc(lifeOf, func(s []string) bool { return slices.Equal(slurm.StatesOf(s...), j.States) })
	next := lifeOf[at+1]
	if w.r.IntN(10) == 0 {
		next = lifeOf[0]
	}
	j.States = slurm.StatesOf(next...)
	w.jobs[j.ID] = j
}

func (w *world) purge(gone func(slurm.Job) bool) {
	for id, j := range w.jobs {
		if gone(j) {
			delete(w.jobs, id)
		}
	}
}

// crash loses the newest jobs, whose ids are used again.
func (w *world) crash() {
	lost := min(w.nextID, w.r.Uint32N(4))
	w.nextID -= lost
	w.purge(func(j slurm.Job) bool { return j.ID > w.nextID })
	w.diag.Since = time.Now()
	for range w.r.Uint32N(4) {
		w.submit()
	}
}

func (w *world) changeNode() {
	name := fmt.Sprint("x", w.r.IntN(4))
	states := []string{"", slurm.NodeIdle, slurm.NodeMixed, slurm.NodeDown}
	if s := states[w.r.IntN(len(states))]; s != "" {
		w.nodes[name] = slurm.Node{Name: name, States: slurm.StatesOf(s), Partitions: []string{"a"}, FreeMemory: slurm.NumberOf(w.r.Uint64N(9))}
	} else {
		delete(w.nodes, name)
	}
}

// checkGone holds an event against the world: what exists never counts as gone.
func (w *world) checkGone(t *testing.T, e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Job != nil && e.Job.New == nil && w.jobs[e.Job.Old.ID].SLUID == e.Job.Old.SLUID {
		t.Errorf("job %s counts as gone, but Slurm has it", e.Job.Old.SLUID)
	}
	if e.Node != nil && e.Node.New == nil {
		if _, there := w.nodes[e.Node.Old.Name]; there {
			t.Errorf("node %s counts as gone, but Slurm has it", e.Node.Old.Name)
		}
	}
}

// TestRandomLives runs seeded sequences of what a Slurm may do and suffer. At
// each moment, the events tell the same as the readers, and when all is well
// again the cache has what Slurm has.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, seed) })
		})
		if t.Failed() {
			return // one is enough to look at
		}
	}
}

func randomLife(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{controllerFake: newControllerFake(), r: r}
	key := func(j slurm.Job) string { return j.AdminComment }
	c, _ := start(t, w.controllerFake, Options{Key: key})
	steady, late, slow := newReplica(), newReplica(), newReplica()
	defer c.Subscribe(func(e Event) { w.checkGone(t, e); steady.handle(e) })()
	defer c.Subscribe(func(e Event) { time.Sleep(5 * time.Second); slow.handle(e) })()
	var generation uint64
	var done []string
	for i := range 80 {
		done = append(done, w.step())
		switch r.IntN(8) {
		case 0, 1, 2, 3:
			time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		case 4:
			time.Sleep(time.Minute)
		case 5:
			read := c.RefreshJob
			if r.IntN(2) == 0 {
				read = c.RefreshStarted
			}
			read(t.Context(), 1+r.Uint32N(w.nextID+1))
		case 6:
			c.RefreshNode(t.Context(), fmt.Sprint("x", r.IntN(4)))
		}
		if i == 40 {
			defer c.Subscribe(late.handle)()
		}
		synctest.Wait()
		if now := c.Generation(); now < generation {
			t.Errorf("the generation fell from %d to %d", generation, now)
		} else {
			generation = now
		}
		checkIndexes(t, c)
		checkReplica(t, c, steady)
		if i >= 40 {
			checkReplica(t, c, late)
		}
		if t.Failed() {
			t.Fatalf("after %v", done)
		}
	}
	w.set(func() { w.down, w.emptyList, w.broken = nil, false, nil })
	time.Sleep(40 * time.Second)
	synctest.Wait()
	check(t, "synced", c.Synced(), true)
	end := &replica{jobs: w.jobs, nodes: w.nodes}
	for name, n := range end.nodes {
		n.FreeMemory = slurm.Number{}
		end.nodes[name] = n
	}
	checkReplica(t, c, end)
	checkReplica(t, c, steady)
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	checkReplica(t, c, slow)
	if t.Failed() {
		t.Errorf("at the end, after %v", done)
	}
}

// checkReplica holds what readers get against a view.
func checkReplica(t *testing.T, c *Cache, r *replica) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs, nodes := map[uint32]slurm.Job{}, map[string]slurm.Node{}
	for _, j := range c.Jobs() {
		jobs[j.ID] = j
	}
	for _, n := range c.Nodes() {
		n.FreeMemory = slurm.Number{}
		nodes[n.Name] = n
	}
	if !reflect.DeepEqual(r.jobs, jobs) {
		t.Errorf("jobs (-events +readers):\n%s", cmp.Diff(r.jobs, jobs))
	}
	if !reflect.DeepEqual(r.nodes, nodes) {
		t.Errorf("nodes (-events +readers):\n%s", cmp.Diff(r.nodes, nodes))
	}
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
}
