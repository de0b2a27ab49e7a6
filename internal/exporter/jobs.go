package exporter

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// jobs counts some jobs. Each task of an array is a job.
type jobs struct {
	total, started, ended, held int
	// states counts jobs by state word; one job may have several.
	states map[string]int
	// external counts external jobs by state word.
	external map[string]int
	// pending counts jobs that wait by Slurm's reason.
	pending map[string]int
	// cpus, memory (MiB) and gpus are what running jobs have; nodes are the names of theirs.
	cpus, memory, gpus uint64
	nodes              map[string]struct{}
	// asked is what jobs that could start ask for, by why they wait.
	asked map[string]*ask
	// widest and slimmest are the most and the fewest nodes that a waiting job asks for;
	// the others of those that nobody holds.
	widest, slimmest, widestFree, slimmestFree uint64
	tooWide                                    int
}

// ask is what waiting jobs ask for.
type ask struct {
	jobs              int
	nodes, cpus, gpus uint64
}

func newJobs() *jobs {
	return &jobs{states: map[string]int{}, external: map[string]int{}, pending: map[string]int{}, asked: map[string]*ask{}, nodes: map[string]struct{}{}}
}

// job is what counts of one job, taken from its record once.
type job struct {
	*slurm.Job
	tasks             int
	nodes, cpus, gpus uint64
	memory            uint64
	held              bool
	// names are the nodes of a running job.
	names []string
}

func readJob(j *slurm.Job) job {
	r := job{Job: j, tasks: tasks(j.ArrayTasks)}
	expression := j.TRESAllocated
	if expression == "" {
		expression = j.TRESRequested
	}
	items, err := tres.Parse(expression)
	for _, item := range items {
		switch {
		case err != nil:
		case item.Type == "cpu":
			r.cpus = item.Count
		case item.Type == "mem":
			r.memory = item.Count
		case item.Type == "node":
			r.nodes = item.Count
		case item.Type == "gres" && item.Name == "gpu" && item.Model == "":
			r.gpus = item.Count
		}
	}
	if n, ok := j.CPUs.Get(); ok && r.cpus == 0 {
		r.cpus = n
	}
	if n, ok := j.NodeCount.Get(); ok && r.nodes == 0 {
		r.nodes = n
	}
	if j.States.Has(slurm.JobRunning) {
		r.names, _ = hostlist.Expand(j.Nodes) // what can't be read names no node
	}
	priority, known := j.Priority.Get()
	r.held = j.States.Has(slurm.JobPending) && (strings.HasPrefix(j.Reason, "JobHeld") || known && priority == 0)
	return r
}

// tasks is how many jobs an array's record stands for: "2-9,12%3" are 9. One that is no array, or whose
// tasks can't be counted, is one job.
func tasks(expression string) int {
	expression, _, _ = strings.Cut(expression, "%")
	n := 0
	for _, part := range strings.Split(strings.Trim(expression, "[]"), ",") {
		part, step, _ := strings.Cut(part, ":")
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			return max(n, 1)
		}
		b, width := a, 1
		if isRange {
			if b, err = strconv.Atoi(last); err != nil || b < a {
				return max(n, 1)
			}
		}
		if step != "" {
			if width, err = strconv.Atoi(step); err != nil || width < 1 {
				return max(n, 1)
			}
		}
		n += (b-a)/width + 1
	}
	return max(n, 1)
}

func (t *jobs) add(j job) {
	t.total += j.tasks
	for _, word := range j.States {
		t.states[word] += j.tasks
		if j.External() {
			t.external[word] += j.tasks
		}
	}
	switch {
	case j.States.Has(slurm.JobPending):
		t.wait(j)
	case j.States.JobEnded():
		t.ended += j.tasks
		if !j.StartTime.IsZero() && j.Nodes != "" {
			t.started += j.tasks
		}
	default:
		t.started += j.tasks
	}
	if j.States.Has(slurm.JobRunning) {
		t.cpus += j.cpus
		t.memory += j.memory
		t.gpus += j.gpus
		for _, name := range j.names {
			t.nodes[name] = struct{}{}
		}
	}
}

func (t *jobs) wait(j job) {
	// What follows a comma is free text, such as the names of nodes.
	reason, _, _ := strings.Cut(j.Reason, ",")
	if reason == "" {
		reason = "None"
	}
	t.pending[reason] += j.tasks
	if reason == "PartitionNodeLimit" {
		t.tooWide += j.tasks
	}
	class := classOf(j, reason)
	if t.asked[class] == nil {
		t.asked[class] = &ask{}
	}
	a, n := t.asked[class], uint64(j.tasks)
	a.jobs += j.tasks
	a.nodes += n * max(j.nodes, 1)
	a.cpus += n * j.cpus
	a.gpus += n * j.gpus
	t.widest, t.slimmest = max(t.widest, j.nodes), least(t.slimmest, j.nodes)
	if j.held {
		t.held += j.tasks
	} else {
		t.widestFree, t.slimmestFree = max(t.widestFree, j.nodes), least(t.slimmestFree, j.nodes)
	}
}

func least(have, n uint64) uint64 {
	if have == 0 {
		return n
	}
	return min(have, n)
}

// classes are why jobs wait, as far as it matters to who would add nodes.
var classes = []string{"resources", "priority", "held", "dependency", "time", "limits", "impossible", "other"}

func classOf(j job, reason string) string {
	if j.held {
		return "held"
	}
	switch {
	case slices.Contains([]string{"Resources", "None", "ReqNodeNotAvail", "NodeDown", "NodesNotAvail"}, reason):
		return "resources"
	case reason == "Priority":
		return "priority"
	case strings.HasPrefix(reason, "Dependency"):
		return "dependency"
	case slices.Contains([]string{"BeginTime", "Reservation", "DeadLine"}, reason):
		return "time"
	case reason == "InvalidAccount", reason == "InvalidQOS", reason == "BadConstraints", strings.HasPrefix(reason, "Partition"), strings.HasSuffix(reason, "NotAllowed"):
		return "impossible"
	case reason == "Licenses", reason == "JobArrayTaskLimit", strings.HasPrefix(reason, "Assoc"), strings.HasPrefix(reason, "QOS"), strings.HasPrefix(reason, "Max"):
		return "limits"
	}
	return "other"
}
