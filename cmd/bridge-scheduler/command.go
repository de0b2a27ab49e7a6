package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
)

// flags are the bridge's own.
type flags struct {
	config, keyFile, user string
	// namespace is the bridge's own.
	namespace string
	workers   int
	giveBack  time.Duration
	// register takes what is counted.
	register func(...prometheus.Collector) error
}

func (f *flags) set() *pflag.FlagSet {
	set := pflag.NewFlagSet("bridge", pflag.ContinueOnError)
	set.StringVar(&f.config, "bridge-config", config.DefaultPath, "The bridge's configuration file, by its absolute path.")
	set.StringVar(&f.keyFile, "slurm-jwt-key-file", "", "A file with the Slurm cluster's JWT key (HS256), to make tokens with. "+
		"Without it, SLURM_JWT_FILE names a file with a token.")
	set.StringVar(&f.user, "slurm-user", "slurm", "The Slurm user that tokens made from the key are for.")
	set.StringVar(&f.namespace, "bridge-namespace", "", "The bridge's namespace, of the ConfigMap that policyConfigMap in the configuration names. The pod's own if empty.")
	set.IntVar(&f.workers, "submit-workers", 8, "How many workloads are submitted to Slurm at once.")
	set.DurationVar(&f.giveBack, "give-back-after", 30*time.Second, "How long Slurm's nodes are kept for pods that Kubernetes' own filters keep off them, until others are asked for.")
	return set
}

// newCommand returns a command with all of kube-scheduler's flags and the bridge's.
// It is not kube-scheduler's own command because that one doesn't tell when it leads.
func newCommand(getenv func(string) string) *cobra.Command {
	f := flags{register: func(all ...prometheus.Collector) error { legacyregistry.RawMustRegister(all...); return nil }}
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:               "bridge-scheduler",
		Short:             "Bind pods to the nodes that Slurm chooses for them",
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return opts.ComponentGlobalsRegistry.Set() },
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			return run(apiserver.SetupSignalContext(), opts, &f, getenv)
		},
	}
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	opts.Flags.FlagSet("bridge").AddFlagSet(f.set())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, 0)
	return cmd
}

// run runs the scheduler until the context ends or its lease is lost.
func run(ctx context.Context, opts *options.Options, f *flags, getenv func(string) string) error {
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(compatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	name, err := cache.NewInformerName("kube-scheduler")
	if err != nil {
		return fmt.Errorf("name the informers: %w", err)
	}
	opts.InformerName = name
	lead := make(chan struct{})
	cc, sched, err := app.Setup(ctx, opts, app.WithPlugin(scheduler.Name, f.plugin(getenv, lead)))
	if err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	tellWhenLeading(sched, lead)
	return app.Run(ctx, cc, sched)
}
