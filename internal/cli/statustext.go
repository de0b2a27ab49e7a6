package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// problemsShown bounds the list of what is wrong.
const problemsShown = 12

// statusText is both worlds at a glance, for people.
func statusText(m *view.Model, st view.Status, s table.Style) string {
	var b strings.Builder
	head := func(label, text string) {
		fmt.Fprintf(&b, "%s%s\n", s.Paint(table.Bold, fmt.Sprintf("%-12s", label)), text)
	}
	head("Kubernetes", kubernetesLine(st, s))
	head("Slurm", slurmLine(st, s))
	for _, c := range st.Clusters {
		text := c.Namespace + "/" + c.Name + " "
		if c.Ready {
			text += s.Paint(table.Green, "ready")
		} else {
			text += s.Paint(table.Red, "not ready") + ": " + c.Message
		}
		for _, n := range st.NodeSets {
			if n.Controller == c.Name && n.Namespace == c.Namespace {
				text += fmt.Sprintf(", NodeSet %s %d of %d ready", n.Name, n.Ready, n.Desired)
			}
		}
		head("Cluster", text)
	}
	for _, text := range st.Kubernetes.Hidden {
		head("", s.Paint(table.Dim, text))
	}
	if st.Use != nil {
		b.WriteString("\n" + useText(*st.Use, s))
	}
	b.WriteString("\n" + queueLine(st, s))
	b.WriteString(problemsText(st, s))
	return b.String()
}

// unknown is what is said of a world that couldn't be asked.
func unknown(w view.WorldStatus, now time.Time, s table.Style) string {
	if w.Absent {
		return s.Paint(table.Dim, "none here")
	}
	text := s.Paint(table.Red, "no answer") + ": " + w.Error
	if !w.Read.IsZero() {
		text += "; it last answered " + view.Age(w.Read, now)
	}
	return text
}

func kubernetesLine(st view.Status, s table.Style) string {
	k := st.Kubernetes
	if !k.Known {
		return unknown(k.WorldStatus, st.Taken, s)
	}
	text := cmp.Or(k.Version, "of unknown version") + ", "
	if k.Lacks(view.PartNodes) {
		text += "nodes not known"
	} else {
		text += fmt.Sprintf("%d of %s ready", k.Ready, plural(k.Nodes, "node"))
	}
	if k.Cordoned > 0 {
		text += fmt.Sprintf(", %d cordoned", k.Cordoned)
	}
	if k.Lacks(view.PartPods) {
		return text + ", pods not known"
	}
	return text + fmt.Sprintf(", %s, %d of them the bridge's", plural(k.Pods, "pod"), k.BridgePods)
}

func slurmLine(st view.Status, s table.Style) string {
	l := st.Slurm
	if !l.Known {
		return unknown(l.WorldStatus, st.Taken, s)
	}
	text := strings.TrimSpace(cmp.Or(l.Version, "of unknown version") + " " + l.Cluster)
	for _, c := range l.Controllers {
		state := "up"
		if !c.Responding {
			state = s.Paint(table.Red, "away")
		}
		text += fmt.Sprintf(", slurmctld %s %s", c.Hostname, state)
	}
	total := 0
	for _, n := range l.Nodes {
		total += n
	}
	text += fmt.Sprintf(", %s: %d up (%d idle)", plural(total, "node"), l.Nodes[view.HealthUp], l.Idle)
	for _, h := range []view.Health{view.HealthDrained, view.HealthDown} {
		if l.Nodes[h] > 0 {
			text += fmt.Sprintf(", %s", s.Paint(healthColours[h], fmt.Sprintf("%d %s", l.Nodes[h], h)))
		}
	}
	return text
}

func useText(u view.Use, s table.Style) string {
	t := table.Table{Columns: []table.Column{
		{Title: "OF SLURM'S NODES"}, {Title: "TOTAL", Right: true}, {Title: "SLURM'S JOBS", Right: true}, {Title: "PODS", Right: true}, {Title: "FREE", Right: true}, {Title: "OUT OF SERVICE", Right: true},
		{Title: "WAITS FOR", Right: true}, {Title: " "},
	}}
	add := func(name string, of func(view.Amounts) uint64, print func(uint64) string) {
		if of(u.Total)+of(u.Asked) == 0 {
			return
		}
		t.Add(table.Cell{Text: name}, table.Cell{Text: print(of(u.Total))}, table.Cell{Text: print(of(u.Jobs)), Colour: table.Blue}, table.Cell{Text: print(of(u.Pods)), Colour: table.Green},
			table.Cell{Text: print(of(u.Free))}, table.Cell{Text: print(of(u.Away)), Colour: table.Yellow}, table.Cell{Text: print(of(u.Asked))}, table.Cell{Text: bar(u, of)})
	}
	plain := func(n uint64) string { return fmt.Sprint(n) }
	add("CPUs", func(a view.Amounts) uint64 { return a.CPUs }, plain)
	add("memory", func(a view.Amounts) uint64 { return a.Memory }, func(n uint64) string { return cmp.Or(mib(n), "0") })
	add("GPUs", func(a view.Amounts) uint64 { return a.GPUs }, plain)
	return t.Render(s)
}

// bar draws how a total is divided: jobs, pods, out of service, free.
func bar(u view.Use, of func(view.Amounts) uint64) string {
	const width = 24
	total := of(u.Total)
	if total == 0 {
		return ""
	}
	var b strings.Builder
	var sum uint64
	drawn := 0
	for _, p := range []struct {
		n    uint64
		mark string
	}{{of(u.Jobs), "█"}, {of(u.Pods), "▓"}, {of(u.Away), "×"}} {
		sum += p.n
		end := int((sum*width + total/2) / total)
		b.WriteString(strings.Repeat(p.mark, max(0, end-drawn)))
		drawn = max(drawn, end)
	}
	return b.String() + strings.Repeat("·", max(0, width-drawn))
}

func queueLine(st view.Status, s table.Style) string {
	words := []struct {
		state view.State
		text  string
	}{{view.StateRunning, "run"}, {view.StateStarting, "start"}, {view.StateEnding, "end"}, {view.StateWaiting, "wait"}, {view.StateNeedsAction, "wait for a person"}}
	var parts []string
	for _, w := range words {
		if n := st.Queue[w.state]; n > 0 {
			parts = append(parts, s.Paint(stateColours[w.state], fmt.Sprintf("%d %s", n, w.text)))
		}
	}
	text := s.Paint(table.Bold, fmt.Sprintf("%-12s", "Queue"))
	switch {
	case len(parts) > 0:
		text += strings.Join(parts, ", ")
	case st.Slurm.Known || st.Slurm.Absent:
		text += "nothing runs and nothing waits"
	default:
		text += "not known"
	}
	text += "\n"
	for _, r := range st.Waiting {
		mark := " "
		if r.NeedsAction {
			mark = s.Paint(table.Red, "!")
		}
		text += fmt.Sprintf("%10d %s %s\n", r.Count, mark, r.Text)
	}
	return text
}

func problemsText(st view.Status, s table.Style) string {
	if len(st.Problems) == 0 {
		return "\n" + s.Paint(table.Green, "Nothing is wrong.") + "\n"
	}
	var b strings.Builder
	b.WriteString("\n" + s.Paint(table.Bold, "What is wrong") + "\n")
	for i, p := range st.Problems {
		if i == problemsShown {
			fmt.Fprintf(&b, "  and %d more: slinky status -o json\n", len(st.Problems)-i)
			break
		}
		colour := table.Yellow
		if p.Hurts {
			colour = table.Red
		}
		fmt.Fprintf(&b, "  %s: %s\n", s.Paint(colour, p.Where), p.What)
		if p.Do != "" {
			fmt.Fprintf(&b, "      %s\n", s.Paint(table.Dim, p.Do))
		}
	}
	return b.String()
}
