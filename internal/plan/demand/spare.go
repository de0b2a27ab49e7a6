package demand

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workernode"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/conf"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// A spare is a Slurm node that stands for a worker which could be added. It is DOWN, so no job runs on
// it, but Slurm shows it, knows its features, and takes jobs that only such a worker can run. Its name
// has an underscore, which no pod's name can have: no worker ever registers under it.
const spareWord = "_spare"

// SpareReason is the reason of a spare of a NodeSet.
func SpareReason(nodeSet string) string {
	return v1beta1.OperatorReasonPrefix + "not started: a worker of NodeSet " + nodeSet + " that starts when jobs need it"
}

func spareName(set string, i int) string { return set + spareWord + strconv.Itoa(i) }

// spareOf tells whether a name is a spare's, and of which set in Slurm.
func spareOf(name string) (set string, ok bool) {
	set, number, ok := strings.Cut(name, spareWord)
	if !ok {
		return "", false
	}
	_, err := strconv.ParseUint(number, 10, 31)
	return set, err == nil && set != ""
}

// isSpare tells whether a node is a spare: by its name, and as no slurmd has ever run on it.
func isSpare(n slurm.Node) bool {
	_, named := spareOf(n.Name)
	return named && n.SlurmdStartTime.IsZero() && (workernode.OwnsReason(n.Reason) || n.States.Has("FUTURE"))
}

// Outside are the nodes that belong to no worker of an autoscaled set and are no spares.
func Outside(nodes map[string]slurm.Node, workers map[string]bool) (out []slurm.Node) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if n := nodes[name]; !workers[name] && !isSpare(n) {
			out = append(out, n)
		}
	}
	return out
}

// SpareStep is one thing to do about spares.
type SpareStep struct {
	// Create makes a node, hidden and unused, that Hold then sets to DOWN.
	Create *slurm.NodeCreate
	// Node is its name, and Reason what to set to DOWN with.
	Node, Reason string
	// Remove deletes the node.
	Remove bool
}

// Spares plans the spares of all sets for the numbers of workers that were decided on. maxNodes is how
// many nodes slurmctld can have.
func Spares(f Facts, p Plan, nodes map[string]slurm.Node, maxNodes int) []SpareStep {
	room := maxNodes
	for _, n := range nodes {
		if !isSpare(n) {
			room--
		}
	}
	for i := range f.Sets {
		for _, w := range f.Sets[i].Workers {
			if w.Node == nil {
				room-- // it will register
			}
		}
		room -= max(0, int(p.Decisions[i].Replicas)-len(f.Sets[i].Workers))
	}
	want := map[string]slurm.NodeCreate{}
	reasons := map[string]string{}
	for i := range f.Sets {
		s := &f.Sets[i]
		if !s.Shape.Known() {
			continue
		}
		number := max(0, min(int(s.Max-p.Decisions[i].Replicas), room))
		room -= number
		for k := range number {
			n := spare(s, k)
			want[n.Name], reasons[n.Name] = n, SpareReason(s.Name)
		}
	}
	var steps []SpareStep
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		if !isSpare(n) {
			delete(want, name)
			continue
		}
		wanted, ok := want[name]
		delete(want, name)
		switch {
		case !ok || !same(wanted, n):
			steps = append(steps, SpareStep{Node: name, Remove: true})
		case !n.States.Has(slurm.NodeDown):
			steps = append(steps, SpareStep{Node: name, Reason: reasons[name]})
		}
	}
	for _, name := range sorted(want) {
		n := want[name]
		steps = append(steps, SpareStep{Create: &n, Node: name, Reason: reasons[name]})
	}
	return steps
}

// sorted sorts names by their number.
func sorted(want map[string]slurm.NodeCreate) []string {
	return slices.SortedFunc(maps.Keys(want), func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

func spare(s *Set, i int) slurm.NodeCreate {
	threads := max(1, s.Shape.Threads)
	n := slurm.NodeCreate{
		// Nobody answers there; a name that can't be resolved would keep slurmctld waiting.
		Name: spareName(s.SlurmName, i), Address: "127.0.0.1", Future: true,
		CPUs: s.Shape.CPUs, Sockets: 1, CoresPerSocket: max(1, s.Shape.CPUs/threads), ThreadsPerCore: threads,
		RealMemory: s.Shape.Memory, Features: s.Shape.Features,
	}
	if n.CPUs%threads != 0 {
		n.CoresPerSocket, n.ThreadsPerCore = n.CPUs, 1
	}
	var list []tres.GRES
	var lines []string
	for _, g := range s.Shape.GRES {
		if g.Count == 0 {
			continue
		}
		list = append(list, tres.GRES{Name: g.Name, Type: g.Type, Count: g.Count})
		line := fmt.Sprintf("count=%d,name=%s", g.Count, g.Name)
		if g.Type != "" {
			line += ",type=" + g.Type
		}
		lines = append(lines, line)
	}
	n.GRES, n.GRESConf = tres.FormatGRES(list), strings.Join(lines, "+")
	return n
}

// same tells whether a spare stands for what is wanted. Slurm leaves out resources that it isn't configured for.
func same(want slurm.NodeCreate, n slurm.Node) bool {
	a, b := slices.Sorted(slices.Values(want.Features)), slices.Sorted(slices.Values(n.Features))
	return want.CPUs == n.CPUs && (want.RealMemory == 0 || want.RealMemory == n.RealMemory) && slices.Equal(a, b) &&
		(len(gres(n.GRES)) == 0 || slices.EqualFunc(gres(want.GRES), gres(n.GRES), sameGRES))
}

// MaxNodes is how many nodes slurmctld can have by its configuration.
func MaxNodes(c *v1beta1.Controller) int {
	most := 1024
	for line := range strings.Lines(c.Spec.ExtraConf) {
		pairs, err := conf.ParsePairs(strings.TrimSpace(line))
		if err != nil {
			continue
		}
		for _, p := range pairs {
			if n, err := strconv.ParseInt(p.Value, 10, 32); err == nil && strings.EqualFold(p.Key, "MaxNodeCount") {
				most = int(n)
			}
		}
	}
	return most
}
