package demand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm/feature"
	"github.com/slinky-hpc/slinky/slurm/tres"

	"github.com/slinky-hpc/slinky/internal/plan/explain"
)

// verdict is why a job finds no place.
type verdict struct {
	// never is what no number of workers within the limits can give it, as "asks for gpu:a100, which
	// no worker has"; empty if it only has to wait.
	never string
}

func sameGRES(a, b tres.GRES) bool { return a.Name == b.Name && a.Type == b.Type && a.Count == b.Count }

// explain tells why there is no place for a job.
func (p *planner) explain(m *matched) *verdict {
	if m.problem != "" {
		return &verdict{never: "can't be read: " + m.problem}
	}
	var classes []*class
	for _, of := range m.classes {
		for _, c := range of {
			if !slices.Contains(classes, c) {
				classes = append(classes, c)
			}
		}
	}
	if len(classes) == 0 {
		return &verdict{never: p.lacking(m)}
	}
	var all []candidate
	for _, c := range classes {
		nodes := 0
		if c.set >= 0 && c == p.sets[c.set].own {
			nodes = int(p.Sets[c.set].Max)
		} else if c.set < 0 {
			for _, b := range c.bins {
				nodes += b.nodes
			}
		}
		whole := c.shape.stock()
		all = append(all, candidate{class: c, nodes: nodes, left: whole, fit: m.fit(whole, c.shape, true)})
	}
	slices.SortStableFunc(all, byFit)
	if m.choose(all) == nil {
		return &verdict{never: p.tooLarge(m, all)}
	}
	return &verdict{}
}

// lacking names what no worker of the job's partitions has.
func (p *planner) lacking(m *matched) string {
	var shapes []Shape
	for _, i := range m.sets {
		shapes = append(shapes, p.Sets[i].Shape)
	}
	offers := func(fits func(Shape) bool) bool { return slices.ContainsFunc(shapes, fits) }
	if !offers(func(s Shape) bool {
		return slices.ContainsFunc(m.constraints, func(e feature.Expr) bool { return len(e.Terms) == 0 || e.Match(s.Features...) })
	}) {
		return fmt.Sprintf("asks for the features %s, which no worker has", m.constraints[0])
	}
	for _, g := range slices.Concat(m.perNode, m.perTask) {
		if !offers(func(s Shape) bool { return count(s.GRES, g) >= g.Count }) {
			return fmt.Sprintf("asks for %s on a node, which no worker has", plainGRES(g))
		}
	}
	cpus := max(m.cpusPerTask, m.cpusPerNode)
	if !offers(func(s Shape) bool { return !s.Known() || s.CPUs >= cpus }) {
		return fmt.Sprintf("asks for %d CPUs on a node, more than any worker has", cpus)
	}
	memory := max(m.memoryPerNode, m.memoryPerCPU*uint64(m.cpusPerTask))
	if !offers(func(s Shape) bool { return s.Memory == 0 || s.Memory >= memory }) {
		return fmt.Sprintf("asks for %d MiB of memory on a node, more than any worker has", memory)
	}
	return "asks for a combination of features, devices, CPUs and memory that no worker has"
}

func plainGRES(g tres.GRES) string {
	return tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count}.String()
}

func (p *planner) tooLarge(m *matched, all []candidate) string {
	most := 0
	for _, c := range all {
		most += c.nodes
	}
	need := m.nodes
	if fit := all[0].fit; fit > 0 {
		need = max(need, (m.tasks+fit-1)/fit)
	}
	if need > most {
		return fmt.Sprintf("needs %s, and maxReplicas allows %d", plural(need, "worker"), most)
	}
	return "needs more than all workers that maxReplicas allows have together"
}

// decide makes a set's decision of what was found out.
func (p *planner) decide(i int) Decision {
	s, t := &p.Sets[i], &p.sets[i]
	gone := int32(p.untouched(i))
	want := t.have + t.added - gone
	bounded := min(max(want, s.Min), max(s.Min, s.Max))
	d := Decision{Name: s.Name, Replicas: bounded, Served: t.served, State: Steady}
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case bounded > s.Replicas:
		d.State = Growing
		switch {
		case t.added > 0:
			say("%s %s: scaling from %d to %d", needs(t.served), more(int(t.added)), s.Replicas, bounded)
		case s.Replicas < s.Min:
			say("minReplicas is %d: scaling from %d to %d", s.Min, s.Replicas, bounded)
		default:
			say("workers that were to go are in use again: scaling from %d to %d", s.Replicas, bounded)
		}
	case bounded < s.Replicas:
		d.State = Shrinking
		if s.Replicas > s.Max && want >= bounded {
			say("maxReplicas is %d: scaling from %d to %d", s.Max, s.Replicas, bounded)
		} else {
			say("%s without a job for %s: scaling from %d to %d", been(int(s.Replicas-bounded)), s.IdleTime, s.Replicas, bounded)
		}
	case t.starting > 0:
		say("%s workers that are starting", needs(t.starting))
	case t.unmet.jobs == 0:
		say("no waiting job needs another worker")
		if t.resting > 0 && t.have > s.Min {
			say("%s idle, and may go after %s without a job", plural(t.resting, "worker")+are(t.resting), s.IdleTime)
		}
	}
	if t.unmet.jobs > 0 {
		if t.have+t.added >= s.Max {
			if d.State == Steady {
				d.State = Limited
			}
			say("%s for workers to get free, as maxReplicas allows %d (first: job %d)", waits(t.unmet.jobs), s.Max, t.unmet.first)
		} else {
			say("%s for workers to get free (first: job %d)", waits(t.unmet.jobs), t.unmet.first)
		}
	}
	if t.stuck > 0 {
		say("%s not registered with Slurm within %s", has(t.stuck), registerWithin)
	}
	p.sayRest(t, say)
	d.Message = strings.Join(words, "; ")
	return d
}

// sayRest names the jobs that no worker can help.
func (p *planner) sayRest(t *tally, say func(string, ...any)) {
	if what, n := first(t.never); n.jobs > 0 {
		say("job %d %s", n.first, what)
		if others := total(t.never) - 1; others > 0 {
			say("%s can't run here either", plural(others, "other job"))
		}
	}
	if why, n := first(t.blocked); n.jobs > 0 {
		say("%s for something else than workers (first: job %d, %s)", waits(total(t.blocked)), n.first, explain.Reason(why))
	}
}

func total(of map[string]tallied) (n int) {
	for _, t := range of {
		n += t.jobs
	}
	return n
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

func needs(n int) string {
	if n == 1 {
		return "1 waiting job needs"
	}
	return fmt.Sprintf("%d waiting jobs need", n)
}

func waits(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

func been(n int) string {
	if n == 1 {
		return "1 worker has been"
	}
	return fmt.Sprintf("%d workers have been", n)
}

func has(n int) string {
	if n == 1 {
		return "1 worker has"
	}
	return fmt.Sprintf("%d workers have", n)
}

func more(n int) string { return plural(n, "more worker") }
