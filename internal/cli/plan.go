package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

func (s *settings) plan() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "plan", GroupID: "see", Args: exactly(0, ""),
		Short: "Run the planners on the snapshot, and say what they would do, and why",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		m, _, err := s.look(c.Context(), f, worlds.Want{})
		if err != nil {
			return err
		}
		plans := m.Plans()
		return o.print(c, listed(plans), func() string {
			if len(plans) == 0 {
				return "The planners would do nothing, and nothing waits.\n"
			}
			style := s.style(c)
			var b strings.Builder
			for _, p := range plans {
				b.WriteString(style.Paint(table.Bold, p.About) + "\n")
				for _, step := range p.Steps {
					b.WriteString("  - " + step + "\n")
				}
			}
			return b.String()
		}, each(plans, func(p view.Planned) string { return p.About }))
	}
	o.add(c, "text", "json", "yaml", "name")
	return c
}
