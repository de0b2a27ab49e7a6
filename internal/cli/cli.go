// Package cli is the command line of slinky.
package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slinky-hpc/slinky/internal/box"
	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

// New returns the command with all its subcommands, under the name that it was called by: as
// a plugin of kubectl it is "kubectl slinky" and knows clusters, not the box.
func New(program string, environ []string) *cobra.Command {
	s := &settings{environ: environ, plugin: strings.HasPrefix(filepath.Base(program), "kubectl-slinky")}
	root := &cobra.Command{
		Use:   "slinky",
		Short: "Slurm and Kubernetes as one system",
		Long: "slinky shows Slurm and Kubernetes as one system: the queue, the nodes, and why something waits. It also runs\n" +
			"a whole cluster on this machine, real Kubernetes and real Slurm, and works with it. Start with: slinky demo",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(c *cobra.Command, _ []string) { s.named = c.Flags().Changed("name") },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see: %s --help", err, c.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: "see", Title: "Both worlds:"})
	root.AddCommand(s.status(), s.top(), s.queue(), s.nodes(), s.why(), s.drain(), s.undrain(), s.snapshot(), s.replay(), s.web())
	if s.plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl slinky"}
		root.Long = "kubectl slinky shows Slurm and Kubernetes as one system: the queue, the nodes, and why something waits."
		return root
	}
	root.PersistentFlags().StringVar(&s.name, "name", box.DefaultName, "name of the box")
	root.PersistentFlags().StringVar(&s.source, "source", "", "checkout of the project to build from (default: around the working folder or this program)")
	root.AddGroup(&cobra.Group{ID: "box", Title: "The box, a cluster on this machine:"}, &cobra.Group{ID: "use", Title: "Working with it:"})
	root.AddCommand(s.up(), s.emulate(), s.down(), s.demo(), s.images(), s.load(),
		s.kubectl(), s.helm(), s.exec(), s.slurm(), s.kubeconfig(), s.tools(), nodeInit(), machineInit())
	return root
}

type settings struct {
	name, source string
	// named is set where the user has named the box.
	named bool
	// plugin is set where the program runs as a plugin of kubectl.
	plugin  bool
	environ []string
	// file is the snapshot that is replayed.
	file string
}

func (s *settings) env(name string) string {
	for _, e := range s.environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

func (s *settings) box() (*box.Box, error) {
	if err := box.CheckName(s.name); err != nil {
		return nil, err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the cache folder: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	report := progress.New(terminal(os.Stderr))
	root := filepath.Join(dir, "slinky")
	b := &box.Box{Name: s.name, Root: root, Self: self, Report: report, Source: s.source, Command: command(self)}
	b.Cache = cache.New(root, func(kind, key string) {
		report.Say("Another process makes %s %s; waiting for it.", kind, key)
	})
	return b, nil
}

// command is what the user can type to call this program.
func command(self string) string {
	if found, err := exec.LookPath("slinky"); err == nil && filepath.IsAbs(found) {
		return "slinky"
	}
	if here, err := os.Getwd(); err == nil {
		if path, err := filepath.Rel(here, self); err == nil && !strings.HasPrefix(path, "..") {
			return path
		}
	}
	return self
}

// builder is box for commands that build from the checkout.
func (s *settings) builder() (*box.Box, error) {
	b, err := s.box()
	if err != nil {
		return nil, err
	}
	if b.Source == "" {
		b.Source, err = findSource(b.Self)
	}
	return b, err
}

// findSource looks for the checkout above the working folder and above the program.
func findSource(self string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	for _, start := range []string{here, filepath.Dir(self)} {
		for dir := start; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "internal/box/tools/go.mod")); err == nil {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("no checkout of the project here to build from: run this inside one, or name it with --source")
}

func terminal(f *os.File) progress.Options {
	o := progress.Options{Out: f, Now: time.Now, Terminal: term.IsTerminal(int(f.Fd()))}
	if o.Terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = w
		}
	}
	return o
}

func streams(c *cobra.Command) box.Streams {
	return box.Streams{In: c.InOrStdin(), Out: c.OutOrStdout(), Err: c.ErrOrStderr()}
}

func nodeInit() *cobra.Command {
	return &cobra.Command{
		Use: "node-init CONFIG", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "First process of the box's containers",
		RunE: func(c *cobra.Command, args []string) error {
			config, err := nodeinit.Read(args[0])
			if err != nil {
				return err
			}
			return nodeinit.Run(c.Context(), config)
		},
	}
}

func machineInit() *cobra.Command {
	return &cobra.Command{
		Use: "machine-init", Hidden: true, Args: cobra.NoArgs,
		Short: "First process of the box's emulated machine",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := nodeinit.BootMachine(); err != nil {
				return err
			}
			config, err := nodeinit.Read("/node/init.json")
			if err != nil {
				return err
			}
			return nodeinit.Run(c.Context(), config)
		},
	}
}
