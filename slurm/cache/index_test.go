package cache

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

func ids(jobs []slurm.Job) []uint32 {
	var out []uint32
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		job := func(id uint32, user, partition, nodes, comment string, states ...string) {
			f.set(func() {
				f.jobs[id] = slurm.Job{ID: id, SLUID: fmt.Sprint("s", id), States: slurm.StatesOf(states...),
					User: user, Partition: partition, Nodes: nodes, AdminComment: comment}
			})
		}
		job(1, "alice", "a", "n[1-2]", "w1", slurm.JobRunning)
		job(2, "alice", "a,b", "", "", slurm.JobPending)
		job(3, "bob", "b", "n1", "w1", slurm.JobCompleted)
		job(4, "bob", "b", "n1", "", slurm.JobCompleted, slurm.JobCompleting)
		c, _ := start(t, f, Options{Key: func(j slurm.Job) string { return j.AdminComment }})
		check(t, "in state", ids(c.JobsInState(slurm.JobCompleted)), []uint32{3, 4})
		check(t, "in a flag's state", ids(c.JobsInState(slurm.JobCompleting)), []uint32{4})
		check(t, "in partition a", ids(c.JobsInPartition("a")), []uint32{1, 2})
		check(t, "in partition b", ids(c.JobsInPartition("b")), []uint32{2, 3, 4})
		check(t, "of user", ids(c.JobsOfUser("alice")), []uint32{1, 2})
		check(t, "on node", ids(c.JobsOnNode("n1")), []uint32{1, 4})
		check(t, "with key", ids(c.JobsWithKey("w1")), []uint32{1, 3})
		check(t, "with no key", len(c.JobsWithKey("")), 0)
		check(t, "count", c.CountJobs(), map[string]int{slurm.JobRunning: 1, slurm.JobPending: 1, slurm.JobCompleted: 2, slurm.JobCompleting: 1})

		job(2, "alice", "b", "n2", "w2", slurm.JobRunning)
		job(4, "bob", "b", "n1", "", slurm.JobCompleted)
		f.set(func() { delete(f.jobs, 3) })
		polls(1)
		check(t, "later, in state", ids(c.JobsInState(slurm.JobCompleted)), []uint32{4})
		check(t, "later, in partition a", ids(c.JobsInPartition("a")), []uint32{1})
		check(t, "later, on node n1", ids(c.JobsOnNode("n1")), []uint32{1})
		check(t, "later, on node n2", ids(c.JobsOnNode("n2")), []uint32{1, 2})
		check(t, "later, with key w1", ids(c.JobsWithKey("w1")), []uint32{1})
		check(t, "later, with key w2", ids(c.JobsWithKey("w2")), []uint32{2})
	})
}

// checkIndexes holds the indexes against the records that they are of.
func checkIndexes(t *testing.T, c *Cache) {
	t.Helper()
	jobs, nodes := newJobIndexes(), newNodeIndexes()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id, j := range c.jobs {
		jobs.update(id, nil, j)
		if g := c.groups[j.group]; g == nil || !slices.Contains(g.members, id) {
			t.Errorf("job %d isn't in its group %d", id, j.group)
		}
	}
	unfinished := map[uint32]*group{}
	for id, g := range c.groups {
		if g.unfinished {
			unfinished[id] = g
		}
	}
	if !maps.Equal(unfinished, c.unfinished) {
		t.Errorf("%d groups are unfinished, and %d are kept as such", len(unfinished), len(c.unfinished))
	}
	for name, n := range c.nodes {
		nodes.update(name, nil, n)
	}
	if !reflect.DeepEqual(c.jobsBy, jobs) {
		t.Errorf("indexes of jobs (-want +got):\n%s", cmp.Diff(jobs, c.jobsBy, cmp.AllowUnexported(jobIndexes{})))
	}
	if !reflect.DeepEqual(c.nodesBy, nodes) {
		t.Errorf("indexes of nodes (-want +got):\n%s", cmp.Diff(nodes, c.nodesBy, cmp.AllowUnexported(nodeIndexes{})))
	}
	for id, g := range c.groups {
		for _, m := range g.members {
			if j := c.jobs[m]; j == nil || j.group != id {
				t.Errorf("group %d has job %d, which isn't its own", id, m)
			}
		}
	}
}

// memory collects where the slices, maps and pointers within v begin.
func memory(v reflect.Value, into map[uintptr]string, path string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			memory(v.Field(i), into, path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			into[v.Pointer()] = path
			memory(v.Elem(), into, path)
		}
	case reflect.Map:
		if !v.IsNil() {
			into[v.Pointer()] = path
		}
	case reflect.Slice:
		if v.Cap() > 0 {
			into[v.Pointer()] = path
		}
		for i := range v.Len() {
			memory(v.Index(i), into, path+"[]")
		}
	}
}

// filled returns a value of which every slice, map and pointer has something to share.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	}
}

// readers are all ways to read a cache that TestReadersShareNoMemory has filled.
func readers(c *Cache) map[string]func() any {
	return map[string]func() any{
		"Job":              func() any { v, _ := c.Job(1); return v },
		"Jobs":             func() any { return c.Jobs() },
		"JobsInState":      func() any { return c.JobsInState(slurm.JobRunning) },
		"JobsInPartition":  func() any { return c.JobsInPartition("p") },
		"JobsOfUser":       func() any { return c.JobsOfUser("alice") },
		"JobsOnNode":       func() any { return c.JobsOnNode("x1") },
		"JobsWithKey":      func() any { return c.JobsWithKey("k") },
		"CountJobs":        func() any { return c.CountJobs() },
		"Allocation":       func() any { v, _ := c.Allocation(1); return v },
		"Node":             func() any { v, _ := c.Node("x1"); return v },
		"Nodes":            func() any { return c.Nodes() },
		"NodesInState":     func() any { return c.NodesInState(slurm.NodeIdle) },
		"NodesInPartition": func() any { return c.NodesInPartition("p") },
		"CountNodes":       func() any { return c.CountNodes() },
		"an event": func() any {
			var events []Event
			stop := c.Subscribe(func(e Event) { events = append(events, e) })
			synctest.Wait()
			stop()
			return events
		},
	}
}

// TestReadersShareNoMemory also finds a field that a Clone method forgets.
func TestReadersShareNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		j, n := slurm.Job{}, slurm.Node{}
		filled(reflect.ValueOf(&j).Elem())
		filled(reflect.ValueOf(&n).Elem())
		j.ID, j.SLUID, j.User, j.Partition, j.Nodes = 1, "a", "alice", "p", "x1"
		j.States, j.Flags = slurm.StatesOf(slurm.JobRunning), []string{slurm.FlagExternalJob}
		n.Name, n.States, n.Partitions = "x1", slurm.StatesOf(slurm.NodeIdle), []string{"p"}
		f.jobs[1], f.nodes["x1"] = j, n
		c, _ := start(t, f, Options{Key: func(j slurm.Job) string { j.States[0] = "X"; return "k" }})

		read := readers(c)
		own := map[uintptr]string{}
		c.mu.RLock()
		memory(reflect.ValueOf(&c.jobs[1].record), own, "job")
		memory(reflect.ValueOf(c.jobs[1].allocation), own, "allocation")
		memory(reflect.ValueOf(&c.nodes["x1"].record), own, "node")
		c.mu.RUnlock()
		for _, name := range slices.Sorted(maps.Keys(read)) {
			a, b := read[name](), read[name]()
			seen := map[uintptr]string{}
			memory(reflect.ValueOf(a), seen, name)
			if len(seen) == 0 {
				t.Errorf("%s returned nothing that could be shared", name)
			}
			again := map[uintptr]string{}
			memory(reflect.ValueOf(b), again, name)
			for at, path := range again {
				if in, shared := seen[at]; shared {
					t.Errorf("%s is the same memory in two answers (%s)", path, in)
				}
				if in, shared := own[at]; shared {
					t.Errorf("%s is the cache's own memory (%s)", path, in)
				}
			}
		}
	})
}
