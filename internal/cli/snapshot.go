package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
	"github.com/slinky-hpc/slinky/internal/observe/worlds"
)

// inSnapshot bounds the running jobs whose cores a snapshot holds: one call to Slurm each.
const inSnapshot = 2000

func (s *settings) snapshot() *cobra.Command {
	c := &cobra.Command{
		Use: "snapshot FILE", GroupID: "see", Args: exactly(1, "the file to write"),
		Short: "Write the state of both worlds to one file, without secrets",
		Long: "Write the state of both worlds to one file, to look at later or elsewhere: slinky replay FILE. It holds names, labels,\n" +
			"requests, states and reasons; commands, environments, volumes, comments and foreign annotations stay out. In the templates of\n" +
			"NodeSets, sums stand for them, with which nobody can find out what they were. Only you may read it.",
		Example: "  slinky snapshot monday.slinky\n  slinky replay monday.slinky queue",
	}
	f := s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		salt := make([]byte, 32)
		if _, err := rand.Read(salt); err != nil {
			return fmt.Errorf("make a salt for what is redacted: %w", err)
		}
		m, _, err := s.look(c.Context(), f, worlds.Want{Limits: true, Allocations: inSnapshot, Planners: true, Salt: salt})
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := worlds.Write(&text, m.Facts); err != nil {
			return err
		}
		if err := atomicfile.Replace(args[0], text.Bytes(), 0o600, atomicfile.Cached); err != nil {
			return fmt.Errorf("write the snapshot: %w", err)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s has %s, %s and %s. Look at it with: slinky replay %s\n", args[0],
			plural(len(m.Kubernetes.Pods), "pod"), plural(len(m.Slurm.Jobs), "job"), plural(len(m.Nodes()), "node"), args[0])
		for _, text := range m.NotInFile() {
			fmt.Fprintln(c.OutOrStdout(), text)
		}
		return partial(m)
	}
	return c
}

func (s *settings) replay() *cobra.Command {
	return &cobra.Command{
		Use: "replay FILE [COMMAND]", GroupID: "see", DisableFlagParsing: true,
		Short: "Look at a snapshot: status, top, queue, nodes, why, or what the planners would do (plan)",
		Long: "Look at a snapshot as at a cluster, without one: FILE is what \"slinky snapshot\" wrote, and COMMAND is status (the default),\n" +
			"top, queue, nodes, why, or plan, which runs the planners on it and says what they would do, and why.",
		Example: "  slinky replay monday.slinky\n  slinky replay monday.slinky queue -o wide\n  slinky replay monday.slinky why ml/train-0\n  slinky replay monday.slinky plan",
		RunE: func(c *cobra.Command, args []string) error {
			args, help := s.leadingFlags(args)
			if help || len(args) == 0 {
				return c.Help()
			}
			inner := &settings{environ: s.environ, plugin: s.plugin, file: args[0]}
			root := &cobra.Command{Use: c.CommandPath() + " " + args[0], SilenceUsage: true, SilenceErrors: true}
			root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage("%w; see: %s --help", err, c.CommandPath()) })
			root.AddGroup(&cobra.Group{ID: "see", Title: "Commands:"})
			root.AddCommand(inner.status(), inner.top(), inner.queue(), inner.nodes(), inner.why(), inner.plan())
			root.CompletionOptions.DisableDefaultCmd = true
			root.SetIn(c.InOrStdin())
			root.SetOut(c.OutOrStdout())
			root.SetErr(c.ErrOrStderr())
			if args = args[1:]; len(args) == 0 {
				args = []string{"status"}
			}
			root.SetArgs(args)
			return root.ExecuteContext(c.Context())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return nil, cobra.ShellCompDirectiveDefault
			case 1:
				return []string{"status", "top", "queue", "nodes", "why", "plan"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
