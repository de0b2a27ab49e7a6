package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// planners are what the planners are called before their plans, in this order.
func planners() []struct{ name, title string } {
	return []struct{ name, title string }{
		{view.PlannerNodes, "The bridge, for nodes"},
		{view.PlannerWorkloads, "The bridge, for pods"},
		{view.PlannerNodeSets, "The operator, for NodeSets"},
		{view.PlannerQueue, "What waits, and what to do"},
	}
}

func (s *settings) plan() *cobra.Command {
	var o output
	var only []string
	c := &cobra.Command{
		Use: "plan", GroupID: "see", Args: exactly(0, ""),
		Short: "Run the planners on the snapshot, and say what each would do next, and why",
		Long: "Run the planners on the snapshot, and say what each would do next, and why: the bridge's for nodes and for pods, the\n" +
			"operator's for NodeSets, and for what waits, what a person can do. What a planner lacks in the file is said in its place.",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var known []string
		for _, p := range planners() {
			known = append(known, p.name)
		}
		for _, name := range only {
			if !slices.Contains(known, name) {
				return usage("--planner has %q: it can be %s", name, strings.Join(known, ", "))
			}
		}
		m, _, err := s.look(c.Context(), f, worlds.Want{})
		if err != nil {
			return err
		}
		plans := slices.DeleteFunc(m.Plans(), func(p view.Planned) bool { return len(only) > 0 && !slices.Contains(only, p.Planner) })
		return o.print(c, listed(plans), func() string { return plansText(plans, o.wide(), s.style(c)) }, each(plans, func(p view.Planned) string { return p.About }))
	}
	c.Flags().StringSliceVar(&only, "planner", nil, "only these planners: nodes, workloads, nodesets, queue")
	o.add(c, "table", "wide", "json", "yaml", "name")
	return c
}

// plansText is a table for each planner that has something to say.
func plansText(plans []view.Planned, wide bool, s table.Style) string {
	if len(plans) == 0 {
		return "The planners would do nothing, and nothing waits.\n"
	}
	if wide {
		s.Width = 0
	}
	var parts []string
	for _, planner := range planners() {
		t := table.Table{Columns: []table.Column{{Title: "ABOUT", Least: 16}, {Title: "DOES", Least: 12}, {Title: "ON", Least: 12}, {Title: "WHY", Least: 20}}}
		rows := 0
		for _, p := range plans {
			if p.Planner != planner.name {
				continue
			}
			about := p.About
			if p.Unplanned != "" {
				t.Add(table.Cell{Text: about}, table.Cell{Text: "not planned", Colour: table.Yellow}, table.Cell{}, table.Cell{Text: p.Unplanned})
				rows++
			}
			for _, step := range p.Steps {
				t.Add(table.Cell{Text: about}, table.Cell{Text: step.Do}, table.Cell{Text: step.On}, table.Cell{Text: step.Why})
				about = "" // once for all its steps
				rows++
			}
		}
		if rows > 0 {
			parts = append(parts, fmt.Sprintf("%s\n%s", s.Paint(table.Bold, planner.title), t.Render(s)))
		}
	}
	return strings.Join(parts, "\n")
}
