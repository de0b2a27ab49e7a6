package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slinky-hpc/slinky/internal/box"
	"github.com/slinky-hpc/slinky/internal/box/image"
)

func (s *settings) up() *cobra.Command {
	var o box.Options
	c := &cobra.Command{
		Use: "up", GroupID: "box", Args: cobra.NoArgs,
		Short: "Start the cluster: Kubernetes nodes, a Slurm cluster, the operator and the bridge",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			start := time.Now()
			if err := b.Up(c.Context(), o); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "\nBox %q is ready after %s.\n\n", s.name, time.Since(start).Round(time.Second/10))
			fmt.Fprint(c.OutOrStdout(), b.Hints(o))
			return nil
		},
	}
	c.Flags().IntVar(&o.Nodes, "nodes", 0, fmt.Sprintf("number of worker nodes (default %d)", box.DefaultNodes))
	c.Flags().BoolVar(&o.Bare, "bare", false, "only Kubernetes: no Slurm, no operator, no bridge")
	c.Flags().StringSliceVar(&o.With, "with", nil, "controllers of other projects to run as well: "+strings.Join(box.Addons(), ", "))
	return c
}

func (s *settings) emulate() *cobra.Command {
	return &cobra.Command{
		Use: "emulate [IMAGE...]", GroupID: "box", ValidArgs: image.Known(), Args: cobra.ArbitraryArgs,
		Short: "Add a node that is an emulated machine: 8 CPUs, 2 sockets and NUMA nodes, SMT, cgroup v2; slow",
		Example: "  slinky emulate dra-cpu slurmd\n" +
			"  slinky kubectl get node " + box.EmulatedNode,
		RunE: func(c *cobra.Command, images []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			start := time.Now()
			if err := b.Emulate(c.Context(), images); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "\nNode %q is ready after %s. It has the taint %s.\n", box.EmulatedNode, time.Since(start).Round(time.Second/10), box.EmulatedTaint)
			return nil
		},
	}
}

func (s *settings) down() *cobra.Command {
	return &cobra.Command{
		Use: "down", GroupID: "box", Args: cobra.NoArgs,
		Short: "Remove the cluster and everything of it but the cache",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.box()
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return fmt.Errorf("removing a box needs root: run this as root or with sudo")
			}
			return b.Down(c.Context())
		},
	}
}

func (s *settings) demo() *cobra.Command {
	return &cobra.Command{
		Use: "demo", GroupID: "box", Args: cobra.NoArgs,
		Short: "Start the cluster and compute something on both sides of it",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			return b.Demo(c.Context(), c.OutOrStdout(), term.IsTerminal(int(os.Stdout.Fd())))
		},
	}
}

func (s *settings) images() *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "images [NAME...]", GroupID: "box", ValidArgs: image.Known(), Args: cobra.ArbitraryArgs,
		Short:   "Build images, by default those of a plain cluster, and print their names and their archive",
		Example: "  slinky load \"$(slinky images --quiet slurmd-container)\"",
		RunE: func(c *cobra.Command, names []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			images, archive, err := b.BuildImages(c.Context(), names)
			if err != nil {
				return err
			}
			if quiet {
				fmt.Fprintln(c.OutOrStdout(), archive)
				return nil
			}
			for _, i := range images {
				fmt.Fprintf(c.OutOrStdout(), "%-50s %s\n", i.Name, i.Digest)
			}
			fmt.Fprintf(c.OutOrStdout(), "\nAll of them in one archive: %s\n", archive)
			return nil
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the path of the archive")
	return c
}

func (s *settings) load() *cobra.Command {
	return &cobra.Command{
		Use: "load ARCHIVE", GroupID: "use", Args: cobra.ExactArgs(1),
		Short:   "Bring an image archive (docker save, OCI) to all nodes",
		Example: "  docker save my/image:1 -o image.tar && slinky load image.tar",
		RunE: func(c *cobra.Command, args []string) error {
			b, err := s.box()
			if err != nil {
				return err
			}
			return b.LoadImage(c.Context(), args[0])
		},
	}
}

func (s *settings) kubeconfig() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig", GroupID: "use", Args: cobra.NoArgs,
		Short:   "Print the path of the administrator's kubeconfig",
		Example: "  export KUBECONFIG=$(slinky kubeconfig)",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.box()
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), b.Kubeconfig())
			}
			return err
		},
	}
}

func (s *settings) tools() *cobra.Command {
	c := &cobra.Command{Use: "tools", Hidden: true, Short: "Paths of built tools, for tests"}
	c.AddCommand(&cobra.Command{
		Use: "envtest", Args: cobra.NoArgs,
		Short: "Print a folder with kube-apiserver, etcd and kubectl, building them if needed",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			dir, err := b.EnvtestAssets(c.Context())
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), dir)
			}
			return err
		},
	}, &cobra.Command{
		Use: "helm", Args: cobra.NoArgs,
		Short: "Print the path of helm, building it if needed",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			path, err := b.Tool(c.Context(), "helm")
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), path)
			}
			return err
		},
	})
	return c
}

// passThrough is a command whose arguments belong to another program. Only a
// leading --name is ours.
func (s *settings) passThrough(use, short, example string, run func(*cobra.Command, *box.Box, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, GroupID: "use", Short: short, Example: example, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			args, help := s.leadingFlags(args)
			if help {
				return c.Help()
			}
			b, err := s.box()
			if err != nil {
				return err
			}
			return ended(run(c, b, args))
		},
	}
}

func (s *settings) leadingFlags(args []string) (rest []string, help bool) {
	for len(args) > 0 {
		switch {
		case args[0] == "--name" && len(args) > 1:
			s.name, args = args[1], args[2:]
		case len(args[0]) > 7 && args[0][:7] == "--name=":
			s.name, args = args[0][7:], args[1:]
		default:
			return args, args[0] == "--help" || args[0] == "-h"
		}
	}
	return args, false
}

func (s *settings) kubectl() *cobra.Command {
	return s.passThrough("kubectl [ARG...]", "Run kubectl on the cluster", "  slinky kubectl get pods -A -o wide",
		func(c *cobra.Command, b *box.Box, args []string) error {
			return b.RunKubectl(c.Context(), streams(c), args...)
		})
}

func (s *settings) helm() *cobra.Command {
	return s.passThrough("helm [ARG...]", "Run helm on the cluster", "  slinky helm list -A",
		func(c *cobra.Command, _ *box.Box, args []string) error {
			b, err := s.builder()
			if err != nil {
				return err
			}
			return b.RunHelm(c.Context(), streams(c), args...)
		})
}

func (s *settings) exec() *cobra.Command {
	return s.passThrough("exec NODE COMMAND [ARG...]", "Run a command on a node, or on control-plane", "  slinky exec node-1 crictl ps",
		func(c *cobra.Command, b *box.Box, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("name a node and a command, as in: slinky exec node-1 crictl ps")
			}
			tty := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
			return b.Exec(c.Context(), args[0], tty, streams(c), args[1:]...)
		})
}

func (s *settings) slurm() *cobra.Command {
	return s.passThrough("slurm COMMAND [ARG...]", "Run a Slurm command: squeue, sinfo, sbatch, srun, scontrol, scancel",
		"  slinky slurm sinfo\n  slinky slurm sbatch -N 2 < script.sh",
		func(c *cobra.Command, b *box.Box, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("name a Slurm command, as in: slinky slurm squeue")
			}
			return b.RunSlurm(c.Context(), streams(c), args...)
		})
}
