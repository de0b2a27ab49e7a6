// Command bridge keeps Kubernetes and Slurm in step: it mirrors nodes, and ends
// jobs with their pods and pods with their jobs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/controller"
	bridgemetrics "github.com/slinky-hpc/slinky/internal/bridge/metrics"
)

func main() {
	if err := run(os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "bridge:", err)
		os.Exit(1)
	}
}

func run(args []string, getenv func(string) string) error {
	var o controller.Options
	var path, keyFile, user string
	var logs zap.Options
	f := flag.NewFlagSet("bridge", flag.ContinueOnError)
	f.StringVar(&path, "config", config.DefaultPath, "The bridge's configuration file, by its absolute path.")
	f.StringVar(&keyFile, "slurm-jwt-key-file", "", "A file with the Slurm cluster's JWT key (HS256), to make tokens with. "+
		"Without it, SLURM_JWT_FILE names a file with a token.")
	f.StringVar(&user, "slurm-user", "slurm", "The Slurm user that tokens made from the key are for.")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "Where to serve metrics; 0 for nowhere.")
	f.BoolVar(&o.SecureMetrics, "metrics-secure", false, "Serve metrics by HTTPS, to whom Kubernetes lets read /metrics.")
	_ = f.Bool("enable-http2", false, "Taken, and without effect: HTTP/1.1 is enough for metrics.")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "Where to serve health probes; 0 for nowhere.")
	f.BoolVar(&o.LeaderElection, "leader-elect", false, "Elect a leader among replicas; only that one acts.")
	f.StringVar(&o.LeaderNamespace, "leader-elect-namespace", "", "The namespace of the lease. The pod's own if empty.")
	f.IntVar(&o.NodeWorkers, "node-workers", 8, "How many nodes are handled at once.")
	f.IntVar(&o.PodWorkers, "pod-workers", 8, "How many pods and jobs are handled at once.")
	logs.BindFlags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	o.Log = zap.New(zap.UseFlagOptions(&logs))
	ctrl.SetLogger(o.Log)
	klog.SetLogger(o.Log)
	var err error
	if o.Config, err = config.Read(os.DirFS("/"), strings.TrimPrefix(path, "/")); err != nil {
		return err
	}
	o.Credentials = connect.CredentialsFrom(keyFile, user, getenv)
	if o.Kube, err = ctrl.GetConfig(); err != nil {
		return fmt.Errorf("find the Kubernetes cluster: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.Register = bridgemetrics.In(metrics.Registry)
	return controller.Run(ctx, o)
}
