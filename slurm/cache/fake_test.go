package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// fakeSlurm is a Slurm that holds what a test puts in, counts calls and fails on demand.
type fakeSlurm struct {
	slurm.Client // for the methods that a cache doesn't use

	mu     sync.Mutex
	jobs   map[uint32]slurm.Job
	nodes  map[string]slurm.Node
	down   error
	broken map[uint32]error
	// emptyList makes the list of states empty, though the jobs are there.
	emptyList bool
	// listing, if set, runs after the list of nodes was made and before it is returned.
	listing func()
	calls   map[string]int
}

func newFake() *fakeSlurm {
	return &fakeSlurm{jobs: map[uint32]slurm.Job{}, nodes: map[string]slurm.Node{}, broken: map[uint32]error{}, calls: map[string]int{}}
}

func (f *fakeSlurm) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeSlurm) put(id uint32, sluid string, states ...string) {
	f.set(func() {
		f.jobs[id] = slurm.Job{ID: id, SLUID: sluid, States: slurm.StatesOf(states...), Flags: []string{slurm.FlagExternalJob}}
	})
}

func (f *fakeSlurm) count(call string) error {
	f.calls[call]++
	return f.down
}

// counted returns the calls since the last time, and forgets them.
func (f *fakeSlurm) counted() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = map[string]int{}
	return calls
}

func (f *fakeSlurm) JobStates(context.Context) ([]slurm.JobState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.count("states"); err != nil || f.emptyList {
		return nil, err
	}
	var out []slurm.JobState
	for id, j := range f.jobs {
		s := slurm.JobState{ID: id, States: j.States}
		if task, ok := j.ArrayTaskID.Get(); ok {
			s.ID, s.Part = uint32(j.ArrayJobID.Value), fmt.Sprintf("_%d", task)
		}
		out = append(out, s)
	}
	return out, nil
}

func (f *fakeSlurm) Jobs(context.Context) ([]slurm.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.count("jobs"); err != nil {
		return nil, err
	}
	var out []slurm.Job
	for _, j := range f.jobs {
		out = append(out, j.Clone())
	}
	return out, nil
}

var errNoObject = &slurm.Error{Kind: slurm.ErrNotFound, Op: "read"}

func (f *fakeSlurm) JobRecords(_ context.Context, id uint32) ([]slurm.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(f.count("job"), f.broken[id]); err != nil {
		return nil, err
	}
	if j, ok := f.jobs[id]; ok && !j.ArrayJobID.Set {
		return []slurm.Job{j.Clone()}, nil
	}
	var out []slurm.Job
	for _, j := range f.jobs {
		if j.ID == id || j.ArrayJobID.Value == uint64(id) {
			out = append(out, j.Clone())
		}
	}
	if out == nil {
		return nil, errNoObject
	}
	return out, nil
}

func (f *fakeSlurm) Allocation(_ context.Context, id uint32) (slurm.Allocation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.count("allocation"); err != nil {
		return slurm.Allocation{}, err
	}
	if !f.jobs[id].States.Has(slurm.JobRunning) {
		return slurm.Allocation{}, &slurm.Error{Kind: slurm.ErrInvalid, Op: "read", Code: 2085}
	}
	return slurm.Allocation{JobID: id, Nodes: []slurm.NodeAllocation{{Node: "x1", Cores: []int{0, 1}}}}, nil
}

func (f *fakeSlurm) Nodes(context.Context) ([]slurm.Node, error) {
	f.mu.Lock()
	err := f.count("nodes")
	var out []slurm.Node
	for _, n := range f.nodes {
		out = append(out, n.Clone())
	}
	listing := f.listing
	f.mu.Unlock()
	if listing != nil {
		listing()
	}
	return out, err
}

func (f *fakeSlurm) Node(_ context.Context, name string) (slurm.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.count("node"); err != nil {
		return slurm.Node{}, err
	}
	n, ok := f.nodes[name]
	if !ok {
		return slurm.Node{}, errNoObject
	}
	return n.Clone(), nil
}

// deltaFake is a fakeSlurm that can also tell that no node changed.
type deltaFake struct {
	*fakeSlurm
	unchanged bool
}

func (f *deltaFake) NodesSince(ctx context.Context, since time.Time) ([]slurm.Node, time.Time, error) {
	if f.unchanged && !since.IsZero() {
		f.set(func() { f.count("nodes unchanged") })
		return nil, since, nil
	}
	nodes, err := f.Nodes(ctx)
	return nodes, time.Unix(1, 0), err
}

// controllerFake is a deltaFake whose slurmctld has a start, and whose list of states takes its time.
type controllerFake struct {
	deltaFake
	diag  slurm.Diag
	takes time.Duration
}

func newControllerFake() *controllerFake {
	return &controllerFake{deltaFake: deltaFake{fakeSlurm: newFake()}, diag: slurm.Diag{Since: time.Unix(1, 0)}}
}

func (f *controllerFake) Diag(context.Context) (slurm.Diag, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.diag, f.count("diag")
}

func (f *controllerFake) JobStates(ctx context.Context) ([]slurm.JobState, error) {
	time.Sleep(f.takes)
	return f.fakeSlurm.JobStates(ctx)
}

// log records events as text.
type log struct {
	mu     sync.Mutex
	events []string
}

func (l *log) handle(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	describe := func(present bool, text string) string {
		if !present {
			return "-"
		}
		return text
	}
	switch {
	case e.Job != nil:
		var old, now string
		if e.Job.Old != nil {
			old = fmt.Sprintf("%d/%s %s", e.Job.Old.ID, e.Job.Old.SLUID, e.Job.Old.States)
		}
		if e.Job.New != nil {
			now = fmt.Sprintf("%d/%s %s", e.Job.New.ID, e.Job.New.SLUID, e.Job.New.States)
		}
		l.events = append(l.events, describe(e.Job.Old != nil, old)+" > "+describe(e.Job.New != nil, now))
	case e.Node != nil:
		var old, now string
		if e.Node.Old != nil {
			old = e.Node.Old.Name + " " + e.Node.Old.States.String()
		}
		if e.Node.New != nil {
			now = e.Node.New.Name + " " + e.Node.New.States.String()
		}
		l.events = append(l.events, describe(e.Node.Old != nil, old)+" > "+describe(e.Node.New != nil, now))
	}
}

// take returns the events since the last time, sorted where their order is free.
func (l *log) take(sorted bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	if sorted {
		slices.Sort(events)
	}
	return events
}
