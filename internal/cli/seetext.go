package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// queueText is the queue for people.
func queueText(m *view.Model, items []view.Item, more int, wide bool, s table.Style) string {
	if len(items) == 0 {
		if m.Slurm.Known || m.Slurm.Absent {
			return "Nothing runs and nothing waits.\n"
		}
		return "Of what Kubernetes knows, nothing runs and nothing waits.\n"
	}
	t := table.Table{Columns: []table.Column{
		{Title: "STATE"}, {Title: "NAME", Least: 16}, {Title: "JOB", Right: true}, {Title: "PODS", Right: true}, {Title: "USER", Least: 6}, {Title: "PARTITION", Least: 6},
		{Title: "CPUS", Right: true}, {Title: "GPUS", Right: true}, {Title: "NODES", Least: 8}, {Title: "TIME", Least: 8}, {Title: "REASON", Least: 12},
	}}
	if wide {
		t.Columns = append(t.Columns, table.Column{Title: "ACCOUNT"}, table.Column{Title: "QOS"}, table.Column{Title: "MEMORY", Right: true}, table.Column{Title: "PLACE"}, table.Column{Title: "SUBMITTED"})
		s.Width = 0
	}
	for _, i := range items {
		colour := stateColours[i.State]
		row := []table.Cell{
			{Text: string(i.State), Colour: colour}, {Text: itemName(i)}, {Text: number(uint64(i.Job))}, {Text: podsText(i)}, {Text: i.User}, {Text: i.Partition},
			{Text: number(i.CPUs)}, {Text: number(i.GPUs)}, {Text: nodeList(i)}, {Text: itemTime(i, m.Taken)}, {Text: i.Reason},
		}
		if wide {
			row = append(row, table.Cell{Text: i.Account}, table.Cell{Text: i.QOS}, table.Cell{Text: mib(i.Memory)}, table.Cell{Text: place(i)}, table.Cell{Text: moment(i.Submitted)})
		}
		t.Add(row...)
	}
	text := t.Render(s)
	if more > 0 {
		text += s.Paint(table.Dim, fmt.Sprintf("and %d more lines\n", more))
	}
	return text
}

func itemName(i view.Item) string {
	switch {
	case i.Kind == view.KindArray:
		return fmt.Sprintf("%s [%d tasks]", i.Name, i.Jobs)
	case i.Kind == view.KindGroup:
		return fmt.Sprintf("%s [%d pods]", i.Name, len(i.Pods))
	}
	return i.Name
}

func podsText(i view.Item) string {
	if len(i.Pods) == 0 {
		return ""
	}
	if i.PodsUnknown > 0 {
		return fmt.Sprintf("?/%d", len(i.Pods))
	}
	return fmt.Sprintf("%d/%d", i.PodsRunning, len(i.Pods))
}

func place(i view.Item) string {
	if i.Place == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", i.Place, i.Of)
}

func nodeList(i view.Item) string {
	if i.Nodes != "" {
		return i.Nodes
	}
	if i.NodeCount > 0 {
		return fmt.Sprintf("(%d)", i.NodeCount)
	}
	return ""
}

// itemTime is how long a line runs or waits, and how long it will.
func itemTime(i view.Item, now time.Time) string {
	switch i.State {
	case view.StateWaiting, view.StateNeedsAction:
		if i.Nodes != "" && !i.Start.IsZero() {
			return ago(i.Start, now)
		}
		s := ago(i.Submitted, now)
		if i.Start.After(now) {
			s += ", starts in " + explain.Span(i.Start.Sub(now))
		}
		return s
	case view.StateEnded:
		if i.End.IsZero() {
			return ""
		}
		return ago(i.End, now) + " ago"
	}
	s := ago(i.Start, now)
	if i.End.After(now) {
		s += ", " + explain.Span(i.End.Sub(now)) + " left"
	}
	return strings.TrimPrefix(s, ", ")
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// mib is an amount of memory for people.
func mib(n uint64) string {
	switch {
	case n == 0:
		return ""
	case n >= 10<<20:
		return fmt.Sprintf("%d TiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d GiB", n>>10)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f GiB", float64(n)/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}

func topText(owners []view.Owner, s table.Style) string {
	if len(owners) == 0 {
		return "Nobody uses the cluster, and nothing waits.\n"
	}
	t := table.Table{Columns: []table.Column{
		{Title: "WHO", Least: 10}, {Title: "WORLD"}, {Title: "RUNNING", Right: true}, {Title: "CPUS", Right: true}, {Title: "MEMORY", Right: true}, {Title: "GPUS", Right: true},
		{Title: "WAITING", Right: true}, {Title: "WANTS CPUS", Right: true}, {Title: "WANTS GPUS", Right: true},
	}}
	for _, o := range owners {
		t.Add(table.Cell{Text: o.Name}, table.Cell{Text: o.World, Colour: table.Dim}, table.Cell{Text: fmt.Sprint(o.Running)}, table.Cell{Text: fmt.Sprint(o.Has.CPUs)},
			table.Cell{Text: mib(o.Has.Memory)}, table.Cell{Text: number(o.Has.GPUs)}, table.Cell{Text: fmt.Sprint(o.Waiting)}, table.Cell{Text: number(o.Asks.CPUs)}, table.Cell{Text: number(o.Asks.GPUs)})
	}
	return t.Render(s)
}

func nodesText(m *view.Model, nodes []view.Node, wide bool, s table.Style) string {
	if len(nodes) == 0 {
		return "No node is known.\n"
	}
	t := table.Table{Columns: []table.Column{
		{Title: "NODE", Least: 10}, {Title: "ROLE"}, {Title: "HEALTH"}, {Title: "SLURM STATE", Least: 11}, {Title: "KUBERNETES NODE", Least: 10}, {Title: "CPUS", Right: true}, {Title: "GPUS", Right: true},
		{Title: "MEMORY", Right: true}, {Title: "RUNS", Least: 12}, {Title: "WHY", Least: 16},
	}}
	if wide {
		t.Columns = append(t.Columns, table.Column{Title: "PARTITIONS"}, table.Column{Title: "TOPOLOGY"}, table.Column{Title: "SHAPE"}, table.Column{Title: "WORKER"})
		s.Width = 0
	}
	for _, n := range nodes {
		state := n.ShortState()
		if wide {
			state = n.State
		}
		if n.Slurm == "" {
			state = "-"
		}
		row := []table.Cell{
			{Text: n.Name}, {Text: string(n.Role), Colour: table.Dim}, {Text: string(n.Health), Colour: healthColours[n.Health]}, {Text: state}, {Text: cmp.Or(n.Kubernetes, "-")},
			{Text: share(n.Used.CPUs, n.Total.CPUs)}, {Text: share(n.Used.GPUs, n.Total.GPUs)}, {Text: memoryShare(n)}, {Text: runs(n)}, {Text: causes(n)},
		}
		if wide {
			row = append(row, table.Cell{Text: strings.Join(n.Partitions, ",")}, table.Cell{Text: n.Topology}, table.Cell{Text: n.Shape()}, table.Cell{Text: n.Worker})
		}
		t.Add(row...)
	}
	return t.Render(s)
}

func share(used, total uint64) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", used, total)
}

func memoryShare(n view.Node) string {
	if n.Total.Memory == 0 {
		return ""
	}
	return cmp.Or(mib(n.Used.Memory), "0") + "/" + mib(n.Total.Memory)
}

// runs names what runs on a node, with its cores where they are known.
func runs(n view.Node) string {
	var parts []string
	for _, o := range n.Occupants {
		name := o.Name
		if !o.Pod {
			name = fmt.Sprintf("%d %s", o.Job, o.Name)
		}
		if o.Cores != "" {
			name += " (" + o.Cores + ")"
		}
		parts = append(parts, name)
	}
	if n.OtherPods > 0 {
		parts = append(parts, plural(n.OtherPods, "other pod"))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func causes(n view.Node) string {
	var parts []string
	for _, c := range n.Causes {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

// nodeText is one node for people: how it stands, who runs where, and what to do.
func nodeText(m *view.Model, a view.NodeAnswer, s table.Style) string {
	var b strings.Builder
	b.WriteString(a.Summary + "\n\n")
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-14s %s\n", label, text)
		}
	}
	line("Slurm", strings.TrimSpace(a.Slurm+" "+stateOf(a)))
	line("Kubernetes", a.Kubernetes)
	line("worker", a.Worker)
	line("partitions", strings.Join(a.Partitions, ", "))
	line("topology", a.Topology)
	line("shape", a.Shape())
	line("CPUs", usedOf(a.Used.CPUs, a.Total.CPUs))
	line("GPUs", usedOf(a.Used.GPUs, a.Total.GPUs))
	line("memory", memoryShare(a.Node))
	for _, c := range a.Causes {
		text := c.String()
		if !c.Since.IsZero() {
			text += ", for " + explain.Span(m.Taken.Sub(c.Since))
		}
		line("it is", text)
	}
	if cores := coreLines(a.Node); len(cores) > 0 {
		b.WriteString("\n" + s.Paint(table.Bold, "Who runs where") + "\n" + strings.Join(cores, ""))
	}
	if len(a.Do) > 0 {
		b.WriteString("\n" + s.Paint(table.Bold, "What to do:") + "\n")
		for _, d := range a.Do {
			b.WriteString("  - " + d + "\n")
		}
	}
	return b.String()
}

func stateOf(a view.NodeAnswer) string {
	if a.Slurm == "" {
		return ""
	}
	return "(" + a.State + ")"
}

func usedOf(used, total uint64) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d given", used, total)
}

// coreLines are the cores of a node, socket by socket, in runs of the same occupant.
func coreLines(n view.Node) []string {
	var out []string
	cores, complete := n.CoreMap()
	for first := 0; first < len(cores); {
		last := first
		for last+1 < len(cores) && cores[last+1] == cores[first] && (last+1)%n.CoresPerSocket != 0 {
			last++
		}
		what := "free"
		switch {
		case cores[first] >= 0:
			what = occupant(n.Occupants[cores[first]])
		case !complete:
			what = "free, or of a job below"
		}
		ids := make([]int, 0, last-first+1)
		for c := first; c <= last; c++ {
			ids = append(ids, c)
		}
		out = append(out, fmt.Sprintf("  socket %d  cores %-9s %s\n", first/n.CoresPerSocket, tres.FormatIndexes(ids), what))
		first = last + 1
	}
	for _, o := range n.Occupants {
		if o.Cores == "" {
			out = append(out, fmt.Sprintf("  somewhere on it           %s\n", occupant(o)))
		}
	}
	if n.OtherPods > 0 {
		out = append(out, fmt.Sprintf("  and %s that Slurm didn't place\n", plural(n.OtherPods, "pod")))
	}
	return slices.Clip(out)
}

func occupant(o view.Occupant) string {
	s := fmt.Sprintf("job %d %s", o.Job, o.Name)
	if o.Pod {
		s = "pod " + o.Name
		if o.Job != 0 {
			s += fmt.Sprintf(", job %d", o.Job)
		}
	}
	if o.User != "" && !o.Pod {
		s += " of " + o.User
	}
	if o.GRES != "" {
		s += ", " + o.GRES
	}
	return s
}
