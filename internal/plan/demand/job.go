package demand

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/feature"
	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// request is what makes two jobs alike.
type request struct {
	partition, tres string
	tasks           slurm.Number
	cpus            slurm.Number
	asked           slurm.JobAsks
	// alone: Slurm has left it waiting for so long that it seems not to fit beside others.
	alone bool
	// young has waited for less than some set's PendingTime, and for how long.
	waited time.Duration
}

// ask is a request, read.
type ask struct {
	partitions             []string
	constraints            []feature.Expr
	nodes, maxNodes, tasks int
	cpusPerTask            int
	tasksPerNode           int
	cpusPerNode            int
	memoryPerNode          uint64
	memoryPerCPU           uint64
	// wholeMemory and wholeNode ask for all of a node.
	wholeMemory, wholeNode   bool
	perNode, perTask, perJob []tres.GRES
	required, excluded       []string
	waited                   time.Duration
	// problem is why it can't be read.
	problem string
}

func (a *ask) gres() []tres.GRES { return slices.Concat(a.perNode, a.perTask, a.perJob) }

func readRequest(r request) *ask {
	q := r.asked
	a := &ask{
		partitions: strings.Split(r.partition, ","), nodes: 1, waited: r.waited,
		maxNodes: value(q.MaximumNodes, 1<<30), tasks: max(1, value(r.tasks, 1)), cpusPerTask: max(1, value(q.CPUsPerTask, 1)),
		tasksPerNode: value(q.TasksPerNode, 1<<30), cpusPerNode: value(q.MinimumCPUsPerNode, 0), wholeNode: q.Exclusive || r.alone,
	}
	if total := value(r.cpus, 0); total > a.tasks*a.cpusPerTask && value(r.tasks, 0) <= 1 {
		a.cpusPerTask = max(a.cpusPerTask, total)
	}
	memory, perNode := q.MemoryPerNode.Get()
	a.memoryPerNode, a.wholeMemory = memory, perNode && memory == 0
	a.memoryPerCPU, _ = q.MemoryPerCPU.Get()
	items, err := tres.Parse(r.tres)
	a.fail(err)
	for _, it := range items {
		if it.Type == "node" {
			a.nodes = int(max(1, it.Count))
		}
	}
	// A job for at least so many nodes has a task on each.
	a.tasks = max(a.tasks, a.nodes)
	a.maxNodes = max(a.maxNodes, a.nodes)
	a.perNode = append(a.resources(q.TRESPerNode), a.resources(q.TRESPerSocket)...)
	a.perTask, a.perJob = a.resources(q.TRESPerTask), a.resources(q.TRESPerJob)
	a.readFeatures(q.Constraints)
	a.required, a.excluded = a.names(q.RequiredNodes), a.names(q.ExcludedNodes)
	return a
}

func (a *ask) fail(err error) {
	if err != nil && a.problem == "" {
		a.problem = err.Error()
	}
}

func (a *ask) names(list string) []string {
	if list == "" {
		return nil
	}
	names, err := hostlist.Expand(list)
	a.fail(err)
	return names
}

// resources reads the generic ones of a TRES expression.
func (a *ask) resources(text string) []tres.GRES {
	var out []tres.GRES
	for part := range strings.SplitSeq(text, ",") {
		if !strings.HasPrefix(part, "gres") {
			continue // CPUs and memory have fields of their own
		}
		list, err := tres.ParseGRES(part)
		a.fail(err)
		out = append(out, list...)
	}
	return out
}

// readFeatures makes an expression of each alternative of a bracket: all nodes share one.
func (a *ask) readFeatures(text string) {
	e, err := feature.Parse(text)
	a.fail(err)
	at := slices.IndexFunc(e.Terms, func(t feature.Term) bool { return t.Bracket != nil })
	if at < 0 || e.Terms[at].Bracket.Terms[0].Count > 0 {
		a.constraints = []feature.Expr{e}
		return
	}
	for _, alternative := range e.Terms[at].Bracket.Terms {
		one := feature.Expr{Terms: slices.Clone(e.Terms)}
		alternative.Op = e.Terms[at].Op
		one.Terms[at] = alternative
		a.constraints = append(a.constraints, one)
	}
}

func value(n slurm.Number, otherwise int) int {
	if v, ok := n.Get(); ok && v > 0 {
		return int(min(v, 1<<30))
	}
	return otherwise
}

// waiting is a job that waits for nodes, or the tasks of an array that do.
type waiting struct {
	job   *slurm.Job
	count int
	// leader is the job's id, or that of the heterogeneous job that it is a component of.
	leader uint32
}

// helped are Slurm's reasons for which more nodes can help.
var helped = []string{
	"", "None", "Priority", "Resources", "PartitionConfig", "PartitionNodeLimit", "BadConstraints",
	"ReqNodeNotAvail", "NodeDown", "NodesNotAvail", "SchedDefer",
}

// word is Slurm's reason without what follows.
func word(j *slurm.Job) string {
	w, _, _ := strings.Cut(j.Reason, ",")
	w = strings.ReplaceAll(strings.TrimSpace(w), "_", "")
	if strings.HasPrefix(w, "Nodes required for job are DOWN") || strings.HasPrefix(w, "Nodesrequiredforjob") {
		return "ReqNodeNotAvail"
	}
	return w
}

// blocked tells what keeps a job from starting that no worker can change; "" for nothing.
func blocked(j *slurm.Job, now time.Time) string {
	w := word(j)
	priority, known := j.Priority.Get()
	switch {
	case known && priority == 0 && w != "JobHeldAdmin":
		return "JobHeldUser"
	case j.EligibleTime.After(now):
		return "BeginTime"
	case !slices.Contains(helped, w):
		return w
	case w == "ReqNodeNotAvail" && strings.Contains(j.Description+j.Reason, "eserved for maintenance"):
		return "Reservation"
	case j.Reservation != "":
		return "Reservation"
	case j.External():
		return "External" // they run on the nodes of others, without a slurmd
	}
	return ""
}

// queue sorts the jobs that wait for nodes as Slurm would start them, and tells what the others wait for.
func (p *planner) queue() []waiting {
	runs := map[uint32]int{} // running tasks of arrays
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if array, ok := j.ArrayJobID.Get(); ok && !j.States.Has(slurm.JobPending) && !j.States.JobEnded() {
			runs[uint32(array)]++
		}
	}
	var out []waiting
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if !j.States.Has(slurm.JobPending) || j.States.Has(slurm.JobCompleting) {
			continue
		}
		if why := blocked(j, p.Now); why != "" {
			p.block(j, why)
			continue
		}
		n := 1
		if array, ok := j.ArrayJobID.Get(); ok && j.ArrayTasks != "" {
			total, limit := tasks(j.ArrayTasks)
			if n = min(total, limit-runs[uint32(array)]); n <= 0 {
				p.block(j, "JobArrayTaskLimit")
				continue
			}
		}
		leader := j.ID
		if het, ok := j.HetJobID.Get(); ok && het > 0 {
			leader = uint32(het)
		}
		out = append(out, waiting{job: j, count: n, leader: leader})
	}
	slices.SortStableFunc(out, func(a, b waiting) int {
		x, y := a.job, b.job
		return cmp.Or(cmp.Compare(y.Priority.Value, x.Priority.Value), x.SubmitTime.Compare(y.SubmitTime),
			cmp.Compare(a.leader, b.leader), cmp.Compare(x.ID, y.ID))
	})
	return out
}

func (p *planner) request(j *slurm.Job) request {
	r := request{partition: j.Partition, tres: j.TRESRequested, tasks: j.Tasks, cpus: j.CPUs, asked: j.Asked}
	since := j.SubmitTime
	if j.EligibleTime.After(since) {
		since = j.EligibleTime
	}
	waited := p.Now.Sub(since)
	r.alone = word(j) == "Resources" && waited > misfit
	if r.waited = p.patience; waited < p.patience {
		r.waited = waited
	}
	return r
}

// tasks reads an array's tasks that haven't begun, as "1,3-9:2,20-30%4": how many there are, and how
// many may run at once. Slurm ends a long text with "...", so there may be more.
func tasks(text string) (n, limit int) {
	limit = 1 << 30
	list, most, limited := strings.Cut(text, "%")
	if limited {
		if v, err := strconv.Atoi(most); err == nil && v > 0 {
			limit = v
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		span, step, _ := strings.Cut(part, ":")
		from, to, isRange := strings.Cut(span, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		b, by := a, 1
		if isRange {
			if b, err = strconv.Atoi(to); err != nil || b < a {
				b = a
			}
		}
		if v, err := strconv.Atoi(step); err == nil && v > 0 {
			by = v
		}
		n += (b-a)/by + 1
	}
	return max(1, n), limit
}
