package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/cli/table"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/explain"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// exactly takes n arguments, and says what they are where there are others.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return usage("%q takes no arguments, and there is %q", c.CommandPath(), args[0])
		}
		return usage("%q takes %s; see: %s --help", c.CommandPath(), what, c.CommandPath())
	}
}

// flags returns the flags of a command that looks at a cluster; in a replay there is no cluster to name.
func (s *settings) flags(c *cobra.Command) *clusterFlags {
	f := &clusterFlags{file: s.file}
	if s.file != "" {
		c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: all, or \"default\" to find a name in)")
		return f
	}
	f.add(c)
	return f
}

func (s *settings) status() *cobra.Command {
	var o output
	var w watching
	var check bool
	c := &cobra.Command{
		Use: "status", GroupID: "see", Args: exactly(0, ""),
		Short:   "Show both worlds at a glance: what runs, what is used, what waits for what, and what is wrong",
		Example: "  slinky status\n  slinky status --watch\n  slinky status --check -o json",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if check && w.on {
			return usage("--check tells of one look by its exit code, so it can't be with --watch")
		}
		box := ""
		looks := s.looker(f, worlds.Want{})
		look := func(ctx context.Context) (m *view.Model, namespace string, err error) {
			if box, err = s.boxLine(ctx, f); err != nil {
				return nil, "", err
			}
			return looks(ctx)
		}
		wrong := []view.Problem(nil)
		err := s.see(c, o, w, look, func(m *view.Model, _ string) (picture, error) {
			status, box := m.Status(), box
			wrong = status.Problems
			return picture{value: status, people: func() string { return box + statusText(m, status, s.style(c)) },
				names: each(status.Problems, func(p view.Problem) string { return p.Where })}, nil
		})
		if err == nil && check && len(wrong) > 0 {
			return coded{ExitTrouble, fmt.Errorf("%d things are wrong, of which the first is %s: %s", len(wrong), wrong[0].Where, wrong[0].What)}
		}
		return err
	}
	c.Flags().BoolVar(&check, "check", false, fmt.Sprintf("end with exit code %d if something is wrong", ExitTrouble))
	o.add(c)
	w.add(c, f)
	return c
}

// boxLine says how the box stands, where a command is about it; that it doesn't run is an error.
func (s *settings) boxLine(ctx context.Context, f *clusterFlags) (string, error) {
	if !s.usesBox(f) {
		return "", nil
	}
	b, err := s.box()
	if err != nil {
		return "", err
	}
	line, runs, err := b.Running(ctx)
	switch {
	case runs:
		return line + "\n\n", nil
	case err == nil:
		return "", coded{ExitFailed, fmt.Errorf("%s", line)}
	}
	return "", nil // the cluster itself says more
}

// usesBox tells whether a command that names no cluster is about the box.
func (s *settings) usesBox(f *clusterFlags) bool {
	if s.plugin || f.file != "" || f.kubeconfig != "" || s.env("KUBECONFIG") != "" && !s.named {
		return false
	}
	b, err := s.box()
	if err != nil {
		return false
	}
	_, err = os.Stat(b.Kubeconfig())
	return err == nil
}

func (s *settings) top() *cobra.Command {
	var o output
	var w watching
	c := &cobra.Command{
		Use: "top", GroupID: "see", Args: exactly(0, ""),
		Short:   "Show who uses the cluster most: namespaces of Kubernetes and users of Slurm in one list",
		Example: "  slinky top\n  slinky top --watch\n  slinky top -o json",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return s.see(c, o, w, s.looker(f, worlds.Want{}), func(m *view.Model, _ string) (picture, error) {
			owners := m.Top()
			return picture{value: listed(owners), list: true, people: func() string { return topText(owners, s.style(c)) }, names: each(owners, func(owner view.Owner) string { return owner.Name })}, nil
		})
	}
	o.add(c)
	w.add(c, f)
	return c
}

func (s *settings) queue() *cobra.Command {
	var o output
	var w watching
	var all bool
	var limit int
	var states []string
	var user string
	c := &cobra.Command{
		Use: "queue", Aliases: []string{"q"}, GroupID: "see", Args: exactly(0, ""),
		Short: "Show pods and Slurm's own jobs in one list, with the state and the reason of each",
		Long: "Show pods and Slurm's own jobs in one list: what needs somebody first, then what runs, then what waits, in the\n" +
			"order in which Slurm looks at it. Groups of pods and job arrays are one line each.",
		Example: "  slinky queue\n  slinky queue --watch\n  slinky queue --state Waiting,NeedsAction -o wide\n  slinky queue -n ml -o name | xargs -n1 slinky why",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		for _, state := range states {
			if !slices.Contains(view.States(), state) {
				return usage("--state has %q: it can be %s", state, strings.Join(view.States(), ", "))
			}
		}
		return s.see(c, o, w, s.looker(f, worlds.Want{}), func(m *view.Model, _ string) (picture, error) {
			items := view.Filter{Namespace: f.namespace, User: user, States: states}.Of(m.Queue(all || slices.Contains(states, string(view.StateEnded))))
			more := 0
			if limit > 0 && len(items) > limit {
				items, more = items[:limit], len(items)-limit
			}
			return picture{value: listed(items), list: true, people: func() string { return queueText(m, items, more, o.wide(), s.style(c)) },
				names: each(items, func(i view.Item) string { return i.Target() })}, nil
		})
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also what has ended, as long as Slurm remembers it")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many lines")
	c.Flags().StringSliceVar(&states, "state", nil, "only these states: "+strings.Join(view.States(), ", "))
	c.Flags().StringVar(&user, "user", "", "only this user of Slurm")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(view.States(), cobra.ShellCompDirectiveNoFileComp))
	o.add(c)
	w.add(c, f)
	return c
}

func (s *settings) nodes() *cobra.Command {
	var o output
	var w watching
	c := &cobra.Command{
		Use: "nodes [NODE]", GroupID: "see",
		Short:   "Show the nodes of both worlds side by side; of one node, who runs where, core by core",
		Example: "  slinky nodes\n  slinky nodes node-2\n  slinky nodes --watch --interval 10s\n  slinky nodes -o wide",
		Args:    cobra.MaximumNArgs(1),
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return s.node(c, f, o, w, args[0])
		}
		return s.see(c, o, w, s.looker(f, worlds.Want{}), func(m *view.Model, _ string) (picture, error) {
			nodes := m.Nodes()
			return picture{value: listed(nodes), list: true, people: func() string { return nodesText(m, nodes, o.wide(), s.style(c)) },
				names: each(nodes, func(n view.Node) string { return "node/" + n.Name })}, nil
		})
	}
	c.ValidArgsFunction = s.completeNodes
	o.add(c)
	w.add(c, f)
	return c
}

// onNode bounds the jobs whose cores are read for one node.
const onNode = 1024

func (s *settings) node(c *cobra.Command, f *clusterFlags, o output, w watching, name string) error {
	name = strings.TrimPrefix(name, "node/")
	look := s.looker(f, worlds.Want{Allocations: onNode, Node: name})
	return s.see(c, o, w, look, func(m *view.Model, namespace string) (picture, error) {
		found, err := m.Find(namespace, "node/"+name)
		if err != nil {
			return picture{}, err
		}
		answer := m.WhyNode(*found.Node)
		return picture{value: answer, tells: true, people: func() string { return nodeText(m, answer, s.style(c)) },
			names: func() []string { return []string{"node/" + found.Node.Name} }}, nil
	})
}

func (s *settings) why() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "why POD|JOB|NODE", GroupID: "see", Args: exactly(1, "one pod, job or node"),
		Short: "Explain why a pod or a Slurm job waits, where it is, or how it ended, and how a node stands",
		Long: "Explain why a pod or a Slurm job waits, where it is, or how it ended: what blocks it, its place in the queue,\n" +
			"when Slurm expects to start it, and what to do. Of a node it tells whether it takes work, who stopped it, and who may lift that.\n\n" +
			"A number is a Slurm job. A name is a pod, or a Job or group with pods, or a node; pod/NAME, job/NAME, podgroup/NAME\n" +
			"and node/NAME say which, and NAMESPACE/NAME is a pod of another namespace.",
		Example: "  slinky why train-0\n  slinky why job/train -n ml\n  slinky why ml/train-0\n  slinky why 4711 -o json\n  slinky why node/node-2",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		target := args[0]
		m, namespace, err := s.look(c.Context(), f, worlds.Want{Limits: true, Allocations: onNode, Node: strings.TrimPrefix(target, "node/")})
		if err != nil {
			return err
		}
		found, err := m.Find(namespace, target)
		if err != nil {
			return err
		}
		if found.Node != nil {
			answer := m.WhyNode(*found.Node)
			return o.print(c, answer, func() string { return nodeText(m, answer, s.style(c)) }, nil)
		}
		answer := explain.Why(found.Facts)
		view.Clean(&answer)
		return o.print(c, answer, answer.Text, nil)
	}
	c.ValidArgsFunction = s.completeTargets
	o.add(c, "text", "json", "yaml")
	return c
}

// colours of states and healths.
var stateColours = map[view.State]table.Colour{
	view.StateNeedsAction: table.Red, view.StateEnding: table.Yellow, view.StateRunning: table.Green, view.StateStarting: table.Blue, view.StateEnded: table.Dim,
}

var healthColours = map[view.Health]table.Colour{view.HealthUp: table.Green, view.HealthDrained: table.Yellow, view.HealthDown: table.Red, view.HealthUnknown: table.Dim}
