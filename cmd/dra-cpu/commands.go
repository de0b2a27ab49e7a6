package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/dracpu/report"
)

// alias is the name by which the program is its subcommand gatherinfo.
const alias = "dracpu-gatherinfo"

const usage = `Usage:
  dracpu [flags]                                           run the driver of this node
  dracpu gatherinfo [--output-dir DIR | --stdout]          write what is known of this node, for those who look into a fault
  dracpu introspect metrics                                print the driver's metrics, as JSON
  dracpu introspect state                                  print what the running driver knows, as JSON
  dracpu-gatherinfo [--output-dir DIR | --stdout]          the same as dracpu gatherinfo

Flags of the driver:
`

func subcommands() []string { return []string{"gatherinfo", "introspect"} }

// command is the subcommand that the program is called as, "" for the driver.
func command(argv []string) (name string, args []string) {
	switch {
	case len(argv) > 0 && filepath.Base(argv[0]) == alias:
		return "gatherinfo", argv[1:]
	case len(argv) > 1 && slices.Contains(subcommands(), argv[1]):
		return argv[1], argv[2:]
	case len(argv) > 0:
		return "", argv[1:]
	}
	return "", nil
}

// node is the machine on which a subcommand runs.
type node struct {
	root   string // HOST_ROOT
	getenv func(string) string
	now    time.Time
}

func (n node) at(name string) string { return filepath.Join("/", n.root, name) }

// running finds the driver, and reads its flags and its configuration as it did.
func (n node) running() (report.Process, *options, error) {
	p, err := report.Find(n.at("proc"), subcommands())
	if err != nil {
		return p, nil, err
	}
	o, err := parse(p.Args, io.Discard, p.ReadFile)
	if err != nil {
		return p, nil, fmt.Errorf("read the running driver's flags: %w", err)
	}
	return p, o, nil
}

func introspect(ctx context.Context, args []string, out io.Writer, n node) error {
	var v any
	switch {
	case len(args) == 1 && args[0] == "metrics":
		metrics, err := dracpu.Metrics()
		if err != nil {
			return err
		}
		v = metrics
	case len(args) == 1 && args[0] == "state":
		p, o, err := n.running()
		if err != nil {
			return err
		}
		if v, err = dracpu.AskDriver(ctx, p.Path(o.kubeletRoot)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("introspect what? There are metrics and state, without further arguments; got %q", args)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func gatherInfo(ctx context.Context, args []string, out, messages io.Writer, n node) error {
	f := flag.NewFlagSet("dracpu gatherinfo", flag.ContinueOnError)
	f.SetOutput(messages)
	dir := f.String("output-dir", "", "the folder for the report; by default a file in that of temporary files")
	stdout := f.Bool("stdout", false, "write the report to the standard output")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return usageError{err}
	case f.NArg() > 0:
		return fmt.Errorf("gatherinfo takes no arguments: got %q", f.Args())
	case *dir != "" && *stdout:
		return errors.New("--output-dir and --stdout exclude each other")
	}
	p, o, err := n.running()
	if err != nil {
		return err
	}
	s, err := n.sources(p, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := report.Gather(ctx, s).Text()
	if err != nil {
		return err
	}
	if *stdout {
		_, err = out.Write(text)
		return err
	}
	name, err := n.write(text, *dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(messages, "The report is in", name)
	return nil
}

func (n node) sources(p report.Process, o *options) (report.Sources, error) {
	s := report.Sources{
		Config: o.config, KubeletRoot: p.Path(o.kubeletRoot), CDIDir: p.Path(o.cdiDir), Now: n.now,
		Sys: os.DirFS(n.at("sys")), Proc: os.DirFS(n.at("proc")), Cgroups: os.DirFS(cgroupRoot(o.cgroups, p.Path)),
	}
	var err error
	if path := o.config.SysfsOverlay; path != "" {
		if s.Sys, err = overlay(s.Sys, path, p.ReadFile); err != nil {
			return s, err
		}
	}
	if s.Node, err = nodeName(o.config.HostnameOverride, n.getenv); err != nil {
		return s, err
	}
	kubeconfig := o.config.Kubeconfig
	if kubeconfig != "" {
		kubeconfig = p.Path(kubeconfig)
	}
	// Without the API the report is shorter.
	if kube, err := connect(kubeconfig); err != nil {
		s.NoKube = err
	} else {
		s.Kube = kube
	}
	return s, nil
}

// write makes a file that wasn't there, for its owner alone.
func (n node) write(text []byte, dir string) (string, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	name := filepath.Join(dir, fmt.Sprintf("dracpu-gatherinfo-%s-%d.yaml", n.now.UTC().Format("20060102-150405"), os.Getpid()))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the report: %w: choose a folder with --output-dir, or --stdout", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return name, nil
}

// cgroupRoot is the node's cgroups: what was set, else where the chart mounts them.
func cgroupRoot(set string, at func(string) string) string {
	if set != "" {
		return at(set)
	}
	if mounted := at("/host/cgroup"); isDir(mounted) {
		return mounted
	}
	return at("/sys/fs/cgroup")
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
