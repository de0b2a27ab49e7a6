package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/bridge/submit"
)

// newCommand returns kube-scheduler's command with the plugin and the bridge's flags.
func newCommand(getenv func(string) string) *cobra.Command {
	var path, keyFile, user string
	workers := 4
	factory := func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		c, err := config.Read(os.DirFS("/"), strings.TrimPrefix(path, "/"))
		if err != nil {
			return nil, err
		}
		plugin, err := submit.Start(ctx, h, submit.Options{
			Config: c, Credentials: connect.CredentialsFrom(keyFile, user, getenv), Workers: workers,
		})
		if err != nil {
			return nil, fmt.Errorf("start the bridge: %w", err)
		}
		return plugin, nil
	}
	cmd := app.NewSchedulerCommand(app.WithPlugin(scheduler.Name, factory))
	cmd.Use = "bridge-scheduler"
	cmd.Short = "Bind pods to the nodes that Slurm chooses for them"
	f := cmd.Flags()
	f.StringVar(&path, "bridge-config", config.DefaultPath, "The bridge's configuration file, by its absolute path.")
	f.StringVar(&keyFile, "slurm-jwt-key-file", "", "A file with the Slurm cluster's JWT key (HS256), to make tokens with. "+
		"Without it, SLURM_JWT_FILE names a file with a token.")
	f.StringVar(&user, "slurm-user", "slurm", "The Slurm user that tokens made from the key are for.")
	f.IntVar(&workers, "submit-workers", workers, "How many workloads are submitted to Slurm at once.")
	return cmd
}
