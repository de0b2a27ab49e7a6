package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/bridge/submit"
)

// flags are the bridge's own.
type flags struct {
	config, keyFile, user string
	// namespace is the bridge's own.
	namespace string
	workers   int
}

// newCommand returns kube-scheduler's command with the plugin and the bridge's flags.
func newCommand(getenv func(string) string) *cobra.Command {
	var f flags
	cmd := app.NewSchedulerCommand(app.WithPlugin(scheduler.Name, f.plugin(getenv)))
	cmd.Use = "bridge-scheduler"
	cmd.Short = "Bind pods to the nodes that Slurm chooses for them"
	set := pflag.NewFlagSet("bridge", pflag.ContinueOnError)
	set.StringVar(&f.config, "bridge-config", config.DefaultPath, "The bridge's configuration file, by its absolute path.")
	set.StringVar(&f.keyFile, "slurm-jwt-key-file", "", "A file with the Slurm cluster's JWT key (HS256), to make tokens with. "+
		"Without it, SLURM_JWT_FILE names a file with a token.")
	set.StringVar(&f.user, "slurm-user", "slurm", "The Slurm user that tokens made from the key are for.")
	set.StringVar(&f.namespace, "bridge-namespace", "", "The bridge's namespace, of the ConfigMap that policyConfigMap in the configuration names. The pod's own if empty.")
	set.IntVar(&f.workers, "submit-workers", 8, "How many workloads are submitted to Slurm at once.")
	cmd.Flags().AddFlagSet(set)
	// kube-scheduler's help shows its own groups of flags alone.
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		fmt.Fprintf(c.OutOrStdout(), "\nBridge flags:\n\n%s", set.FlagUsages())
	})
	return cmd
}

// plugin returns what makes the plugin once the flags are known, with the submitter beside it.
func (f *flags) plugin(getenv func(string) string) frameworkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		c, err := config.Read(os.DirFS("/"), strings.TrimPrefix(f.config, "/"))
		if err != nil {
			return nil, err
		}
		namespace := f.namespace
		if c.PolicyConfigMap != "" {
			if namespace, err = connect.Namespace(namespace); err != nil {
				return nil, fmt.Errorf("--bridge-namespace: %w", err)
			}
		}
		plugin, err := submit.Start(ctx, h, submit.Options{
			Config: c, Credentials: connect.CredentialsFrom(f.keyFile, f.user, getenv), Workers: f.workers, Namespace: namespace,
		})
		if err != nil {
			return nil, fmt.Errorf("start the bridge: %w", err)
		}
		return plugin, nil
	}
}
