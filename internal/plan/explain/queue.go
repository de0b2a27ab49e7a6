package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
)

// Queue is what of Slurm's jobs and nodes explains why a job waits. Make it once
// for many jobs, with NewQueue; it doesn't change.
type Queue struct {
	// waiting are the jobs that wait for their turn, the next one first, and running
	// those that have nodes, the first to end first, by partition.
	waiting, running map[string][]*slurm.Job
	jobs             map[uint32]*slurm.Job
	// active are all that run, the first to end first.
	active      []*slurm.Job
	nodes       map[string]*slurm.Node
	byPartition map[string][]*slurm.Node
	// endless is the first of the ends that Slurm has made up for jobs without a time limit, by partition.
	endless map[string]time.Time
}

// NewQueue makes a queue of what Slurm has at one moment. It keeps the slices.
func NewQueue(jobs []slurm.Job, nodes []slurm.Node) *Queue {
	q := &Queue{
		waiting: map[string][]*slurm.Job{}, running: map[string][]*slurm.Job{},
		jobs: make(map[uint32]*slurm.Job, len(jobs)), nodes: make(map[string]*slurm.Node, len(nodes)), byPartition: map[string][]*slurm.Node{}, endless: map[string]time.Time{},
	}
	for i := range nodes {
		n := &nodes[i]
		q.nodes[n.Name] = n
		for _, p := range n.Partitions {
			q.byPartition[p] = append(q.byPartition[p], n)
		}
	}
	for i := range jobs {
		q.add(&jobs[i])
	}
	for _, list := range q.waiting {
		slices.SortStableFunc(list, byTurn)
	}
	for _, list := range q.running {
		slices.SortStableFunc(list, byEnd)
	}
	for _, j := range q.jobs {
		if j.States.Has(slurm.JobRunning) {
			q.active = append(q.active, j)
		}
	}
	slices.SortFunc(q.active, byEnd)
	return q
}

func (q *Queue) add(j *slurm.Job) {
	q.jobs[j.ID] = j
	switch {
	case j.States.JobEnded():
	case j.States.Has(slurm.JobPending):
		if inTurn(*j) {
			for _, p := range partitions(*j) {
				q.waiting[p] = append(q.waiting[p], j)
			}
		}
	case j.Nodes != "":
		// Partitions may share nodes: what counts is where the nodes are.
		seen := map[string]bool{}
		names, _ := hostlist.Expand(j.Nodes) // an unreadable list holds nothing that we could name
		for _, name := range names {
			n := q.nodes[name]
			if n == nil {
				continue
			}
			for _, p := range n.Partitions {
				if !seen[p] {
					seen[p] = true
					q.running[p] = append(q.running[p], j)
					q.madeUp(p, j)
				}
			}
		}
	}
}

// madeUp notes the end that Slurm plans with for a job without a time limit.
func (q *Queue) madeUp(partition string, j *slurm.Job) {
	if !j.TimeLimit.Infinite || j.StartTime.IsZero() {
		return
	}
	end := j.StartTime.Add(endlessLasts).Truncate(time.Minute)
	if first, ok := q.endless[partition]; !ok || end.Before(first) {
		q.endless[partition] = end
	}
}

// Has tells whether the queue knows a job.
func (q *Queue) Has(id uint32) bool { return q.jobs[id] != nil }

// partitions returns the partitions that a job may start in.
func partitions(j slurm.Job) []string { return strings.Split(j.Partition, ",") }

// inTurn tells whether a job waits for its turn, rather than for something that its turn doesn't bring.
func inTurn(j slurm.Job) bool {
	switch classOf(j.Reason) {
	case classTurn, classLimit:
		return true
	}
	return false
}

// byTurn sorts jobs as Slurm looks at them: by priority, then by age.
func byTurn(a, b *slurm.Job) int {
	return cmp.Or(cmp.Compare(b.Priority.Value, a.Priority.Value), a.SubmitTime.Compare(b.SubmitTime), cmp.Compare(a.ID, b.ID))
}

// byEnd sorts jobs by when they end. Those that may run for ever come last.
func byEnd(a, b *slurm.Job) int {
	endless := func(j *slurm.Job) int {
		if until(*j).IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(endless(a), endless(b)), a.EndTime.Compare(b.EndTime), cmp.Compare(a.ID, b.ID))
}

// until is when a running job ends at the latest, zero if never.
func until(j slurm.Job) time.Time {
	if _, finite := j.TimeLimit.Get(); !finite {
		return time.Time{}
	}
	return j.EndTime
}

// Position returns a job's place, from 1, among the jobs that wait for their turn
// in its partition, and how many those are; 0 for a job that doesn't.
func (q *Queue) Position(j slurm.Job) (place, of int) {
	list := q.waiting[partitions(j)[0]]
	if q.jobs[j.ID] == nil {
		return 0, len(list)
	}
	// Sorted: found in a few steps, however many wait.
	i, found := slices.BinarySearchFunc(list, q.jobs[j.ID], byTurn)
	if !found {
		return 0, len(list)
	}
	return i + 1, len(list)
}

// ahead returns the jobs that come before a job in its partition, the next one
// first, at most n, and how many there are.
func (q *Queue) ahead(j slurm.Job, n int) ([]*slurm.Job, int) {
	place, _ := q.Position(j)
	if place <= 1 {
		return nil, 0
	}
	list := q.waiting[partitions(j)[0]][:place-1]
	return list[:min(n, len(list))], len(list)
}

// holders returns the running jobs on nodes that a job could use, the first to
// end first, at most n, and how many there are.
func (q *Queue) holders(j slurm.Job, n int) ([]*slurm.Job, int) {
	list := q.running[partitions(j)[0]]
	wanted := func(*slurm.Job) bool { return true }
	planned, _ := hostlist.Expand(cmp.Or(j.ScheduledNodes, j.Asked.RequiredNodes)) // unreadable: all count
	if len(planned) > 0 {
		wanted = func(r *slurm.Job) bool { return overlaps(r.Nodes, planned) }
	}
	var out []*slurm.Job
	count := 0
	for _, r := range list {
		if !wanted(r) {
			continue
		}
		if count++; len(out) < n {
			out = append(out, r)
		}
	}
	return out, count
}

func overlaps(expression string, names []string) bool {
	have, err := hostlist.Expand(expression)
	return err == nil && slices.ContainsFunc(have, func(n string) bool { return slices.Contains(names, n) })
}

// unusable counts the nodes of a job's partition, and those that take no job now.
func (q *Queue) unusable(j slurm.Job) (down []string, of int) {
	list := q.byPartition[partitions(j)[0]]
	for _, n := range list {
		if n.States.HasAny(slurm.NodeDown, slurm.NodeDrain, slurm.NodeFail, slurm.NodeNotResponding, slurm.NodeError) {
			down = append(down, n.Name)
		}
	}
	slices.Sort(down)
	return down, len(list)
}

// sharing returns the running jobs that count against the same limit, the first
// to end first, at most n, how many there are, and their CPUs.
func (q *Queue) sharing(same func(*slurm.Job) bool, n int) (jobs []*slurm.Job, count int, cpus uint64) {
	for _, j := range q.active {
		if !same(j) {
			continue
		}
		if count++; len(jobs) < n {
			jobs = append(jobs, j)
		}
		cpus += j.CPUs.Value
	}
	return jobs, count, cpus
}
