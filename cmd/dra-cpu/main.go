// Command dra-cpu gives containers CPUs of their own: it is a node's driver for
// Dynamic Resource Allocation, and a plugin of the container runtime by NRI.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/dracpu"
	"github.com/slinky-hpc/slinky/internal/observe/sysfs"
	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := node{root: os.Getenv("HOST_ROOT"), getenv: os.Getenv, now: time.Now()}
	var err error
	switch name, args := command(os.Args); name {
	case "gatherinfo":
		err = gatherInfo(ctx, args, os.Stdout, os.Stderr, n)
	case "introspect":
		err = introspect(ctx, args, os.Stdout, n)
	default:
		err = run(ctx, args, os.Stderr, n)
	}
	switch {
	case errors.As(err, new(usageError)):
		os.Exit(2) // The flag package has said what is wrong.
	case err != nil:
		fmt.Fprintln(os.Stderr, "dra-cpu:", err)
		os.Exit(1)
	}
}

// usageError is a flag that is wrong by itself.
type usageError struct{ error }

func run(ctx context.Context, args []string, out io.Writer, n node) error {
	o, err := parse(args, out, os.ReadFile)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	recent := &dracpu.Recent{}
	log := recent.Keep(klog.Background())
	ctx = klog.NewContext(ctx, log) // for the libraries
	for _, name := range o.deprecated {
		log.Info("A flag is deprecated: set it in the configuration file", "flag", "--"+name)
	}
	log.Info("Starting", "config", fmt.Sprintf("%+v", o.config))
	options := dracpu.Options{
		Config: o.config, Log: log, Address: o.address, KubeletRoot: o.kubeletRoot, CDIDir: o.cdiDir, NRISocket: o.nriSocket,
		PCIeRoots: o.pcieRoots, Recent: recent,
		Sys: os.DirFS(n.at("sys")), Proc: os.DirFS(n.at("proc")), Every: time.Minute,
		Cgroups: os.DirFS(cgroupRoot(o.cgroups, func(name string) string { return name })),
	}
	if path := o.config.SysfsOverlay; path != "" {
		if options.Sys, err = overlay(options.Sys, path, os.ReadFile); err != nil {
			return err
		}
	}
	if options.NodeName, err = nodeName(o.config.HostnameOverride, n.getenv); err != nil {
		return err
	}
	if options.Kube, err = connect(o.config.Kubeconfig); err != nil {
		return err
	}
	return dracpu.Run(ctx, options)
}

func overlay(sys fs.FS, path string, read func(string) ([]byte, error)) (fs.FS, error) {
	text, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read the overlay of /sys: %w", err)
	}
	return sysfs.Overlay(sys, text)
}

// nodeName is what was set, else the name of the pod's node, else the host's.
func nodeName(set string, getenv func(string) string) (string, error) {
	for _, name := range []string{set, getenv("NODE_NAME")} {
		if name != "" {
			return name, nil
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the node's name: %w", err)
	}
	return strings.ToLower(strings.TrimSpace(host)), nil
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes cluster: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

type options struct {
	config                                           dracpu.Config
	address, kubeletRoot, cdiDir, nriSocket, cgroups string
	deprecated                                       []string
	pcieRoots                                        bool
}

// oneOf is a flag with few values.
type oneOf struct {
	value   string
	allowed []string
}

func (v *oneOf) String() string { return v.value }
func (v *oneOf) Set(s string) error {
	if !slices.Contains(v.allowed, s) {
		return fmt.Errorf("want one of %s", strings.Join(v.allowed, ", "))
	}
	v.value = s
	return nil
}

// parse reads the flags and the configuration file. What a flag says counts more
// than the file, also where it says the default.
func parse(args []string, out io.Writer, read func(string) ([]byte, error)) (*options, error) {
	o := &options{config: dracpu.DefaultConfig()}
	c := &o.config
	mode := &oneOf{string(c.CPUDeviceMode), []string{string(cpuset.Grouped), string(cpuset.Individual)}}
	group := &oneOf{string(c.GroupBy), []string{string(cpuset.ByNUMANode), string(cpuset.BySocket), string(cpuset.ByL3Cache), string(cpuset.ByMachine)}}
	var file string
	flags := dracpu.Config{}
	f := flag.NewFlagSet("dracpu", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage)
		f.PrintDefaults()
	}
	klog.InitFlags(f)
	f.StringVar(&file, "config", "", "configuration file")
	f.StringVar(&flags.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty means that of the pod")
	f.StringVar(&o.address, "bind-address", ":8080", "where health and metrics are served")
	f.BoolVar(&o.pcieRoots, "expose-pcie-roots", false, "publish which PCIe roots are near to each device; needs the feature gate DRAListTypeAttributes")
	f.StringVar(&o.kubeletRoot, "kubelet-root-dir", "/var/lib/kubelet", "kubelet's folder, with plugins and plugins_registry in it")
	f.StringVar(&o.cdiDir, "cdi-dir", "/var/run/cdi", "where the container runtime looks for CDI files")
	f.StringVar(&o.nriSocket, "nri-socket", "/var/run/nri/nri.sock", "the container runtime's NRI socket")
	f.StringVar(&o.cgroups, "cgroup-root", "", "the node's cgroups, for slurmJobs: exclusive and for gatherinfo; by default /host/cgroup, or /sys/fs/cgroup where that isn't there")
	f.Var(mode, "cpu-device-mode", "deprecated, cpuDeviceMode of the configuration: "+strings.Join(mode.allowed, ", "))
	f.Var(group, "group-by", "deprecated, groupBy of the configuration: "+strings.Join(group.allowed, ", "))
	f.StringVar(&flags.ReservedCPUs, "reserved-cpus", "", "deprecated, reservedCPUs of the configuration: CPUs that are offered to nobody, as in 0-1,8")
	f.StringVar(&flags.HostnameOverride, "hostname-override", "", "deprecated, hostnameOverride of the configuration: the node's name")
	f.StringVar(&flags.SysfsOverlay, "sysfs-overlay", "", "deprecated, sysfsOverlay of the configuration: a file with other content for files of /sys")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, usageError{err}
	}
	if name := f.Arg(0); slices.Contains(subcommands(), name) {
		return nil, fmt.Errorf("root flags cannot be combined with subcommands: want dracpu %s, with flags after it", name)
	} else if name != "" {
		return nil, fmt.Errorf("there is no command %q: there are %s", name, strings.Join(subcommands(), " and "))
	}
	if file != "" {
		text, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		if err := c.Merge(text); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	f.Visit(func(set *flag.Flag) {
		if overrule(c, flags, set.Name, mode.value, group.value) {
			o.deprecated = append(o.deprecated, set.Name)
		}
	})
	return o, nil
}

// overrule takes what a flag says over the file, and tells whether the flag is deprecated.
func overrule(c *dracpu.Config, flags dracpu.Config, name, mode, group string) (deprecated bool) {
	switch name {
	case "kubeconfig":
		c.Kubeconfig = flags.Kubeconfig
		return false
	case "cpu-device-mode":
		c.CPUDeviceMode = cpuset.Mode(mode)
	case "group-by":
		c.GroupBy = cpuset.GroupBy(group)
	case "reserved-cpus":
		c.ReservedCPUs = flags.ReservedCPUs
	case "hostname-override":
		c.HostnameOverride = flags.HostnameOverride
	case "sysfs-overlay":
		c.SysfsOverlay = flags.SysfsOverlay
	default:
		return false
	}
	return true
}
