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

// New returns the command with all its subcommands.
func New(environ []string) *cobra.Command {
	s := &settings{environ: environ}
	root := &cobra.Command{
		Use:   "slinky",
		Short: "Slurm and Kubernetes as one system",
		Long: "slinky runs a whole cluster on this machine, real Kubernetes and real Slurm, and works with it.\n" +
			"Start with: slinky demo",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&s.name, "name", box.DefaultName, "name of the box")
	root.PersistentFlags().StringVar(&s.source, "source", "", "checkout of the project to build from (default: around the working folder or this program)")
	root.AddGroup(&cobra.Group{ID: "box", Title: "The box, a cluster on this machine:"}, &cobra.Group{ID: "use", Title: "Working with it:"})
	root.AddCommand(s.up(), s.emulate(), s.down(), s.status(), s.demo(), s.images(), s.load(),
		s.why(), s.kubectl(), s.helm(), s.exec(), s.slurm(), s.kubeconfig(), s.tools(), nodeInit(), machineInit())
	return root
}

// Ended is the end of another program that a command ran for its user. That
// program has said itself what was wrong.
type Ended struct{ Code int }

func (e Ended) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// ended takes over the exit code of a program that was run for the user.
func ended(err error) error {
	//nolint:errorlint // Only the program itself, not one that failed on the way to it.
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 0 {
		return Ended{Code: exit.ExitCode()}
	}
	return err
}

type settings struct {
	name, source string
	environ      []string
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
