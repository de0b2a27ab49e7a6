package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/act/drain"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

func (s *settings) drain() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "drain NODE --reason TEXT", GroupID: "see", Args: exactly(1, "one node"),
		Short: "Keep new work away from a node, in Slurm and in Kubernetes",
		Long: "Keep new work away from a node: its Slurm nodes are drained with the reason and your name, and the Kubernetes node is\n" +
			"cordoned. What runs goes on. The name of a worker drains that worker alone. A drain that somebody else made stays as it is.",
		Example: "  slinky drain node-2 --reason \"fan 3 is loud\"\n  slinky drain node-2 --reason \"new firmware\" --dry-run",
	}
	f := s.flags(c)
	var dry bool
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.change(c, f, args[0], dry, func(m *view.Model) (view.DrainPlan, error) { return m.Drain(args[0], reason, s.user()) })
	}
	c.ValidArgsFunction = s.completeNodes
	c.Flags().StringVar(&reason, "reason", "", "why; everybody sees it who waits for the node")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	_ = c.MarkFlagRequired("reason")
	return c
}

func (s *settings) undrain() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "undrain NODE", GroupID: "see", Args: exactly(1, "one node"),
		Short:   "Lift what \"slinky drain\" did to a node, in both worlds, and nothing else",
		Example: "  slinky undrain node-2",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.change(c, f, args[0], dry, func(m *view.Model) (view.DrainPlan, error) { return m.Undrain(args[0]) })
	}
	c.ValidArgsFunction = s.completeNodes
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	return c
}

// user is who drains, as it is written down. It is no proof of anything.
func (s *settings) user() string {
	if u, err := user.Current(); err == nil {
		return cmp.Or(s.env("SUDO_USER"), u.Username)
	}
	return cmp.Or(s.env("SUDO_USER"), s.env("USER"), "unknown")
}

func (s *settings) change(c *cobra.Command, f *clusterFlags, name string, dry bool, plan func(*view.Model) (view.DrainPlan, error)) error {
	sources, _, err := s.sources(c.Context(), f)
	if err != nil {
		return err
	}
	m := view.New(sources.Read(c.Context(), worlds.Want{}))
	p, err := plan(m)
	if err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintln(c.OutOrStdout(), note+".")
	}
	if len(p.Slurm) == 0 && p.Cordon == nil {
		fmt.Fprintf(c.OutOrStdout(), "There is nothing to do on %s.\n", name)
		return partial(m)
	}
	did := "done: "
	if dry {
		did = "would be done: "
	}
	actor := drain.Actor{Kube: sources.Kube}
	if nodes, ok := sources.Slurm.(drain.Nodes); ok {
		actor.Slurm = nodes
	}
	for _, step := range p.Steps() {
		if !dry {
			if err := apply(c.Context(), actor, step); err != nil {
				return fmt.Errorf("%w; what was done before stays, and to call this again does the rest", err)
			}
		}
		fmt.Fprintln(c.OutOrStdout(), did+step.Text)
	}
	return partial(m)
}

func apply(ctx context.Context, a drain.Actor, step view.DrainStep) error {
	switch {
	case step.Slurm != nil && a.Slurm == nil:
		return errors.New("Slurm can't be reached to change its nodes")
	case step.Slurm != nil:
		return a.Node(ctx, *step.Slurm)
	}
	return a.Cordon(ctx, *step.Cordon)
}
