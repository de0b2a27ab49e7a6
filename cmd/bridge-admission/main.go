// Command bridge-admission adopts pods for Slurm as they are created, and refuses what Slurm
// can't honour and what their namespace may not ask for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/slinky-hpc/slinky/internal/bridge/admission"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bridge-admission:", err)
		os.Exit(1)
	}
}

// servingCerts is where controller-runtime looks for a certificate, and the published chart puts it.
const servingCerts = "/tmp/k8s-webhook-server/serving-certs"

func run(ctx context.Context, args []string) error {
	var o admission.Options
	var path string
	var logs zap.Options
	f := flag.NewFlagSet("bridge-admission", flag.ContinueOnError)
	f.StringVar(&path, "config", config.DefaultPath, "The bridge's configuration file, by its absolute path.")
	f.StringVar(&o.ServerAddress, "server-addr", ":9443", "Where to serve the webhooks.")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "Where to serve metrics; 0 for nowhere.")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "Where to serve health probes; 0 for nowhere.")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", false, "Serve metrics over HTTPS, to those whom Kubernetes lets get /metrics.")
	f.BoolVar(&o.HTTP2, "enable-http2", false, "Speak HTTP/2, too.")
	f.BoolVar(&o.LeaderElection, "leader-elect", false, "Let only one of several replicas renew the certificate; all of them serve.")
	f.StringVar(&o.Namespace, "namespace", "", "The bridge's namespace: of the lease, the policy's ConfigMap, the certificate's Secret and the Service, "+
		"and of the service accounts that may write what is the bridge's. The pod's own if empty.")
	f.StringVar(&o.CertDir, "cert-dir", servingCerts, "A folder with tls.crt and tls.key, followed when they change.")
	f.StringVar(&o.CertSecret, "cert-secret", "", "Make a certificate, and keep it in the Secret of this name; a certificate is read from --cert-dir if empty.")
	f.StringVar(&o.Service, "service", "slurm-bridge-admission", "The Service in front of the webhooks, for the certificate that is made.")
	f.StringVar(&o.Configuration, "webhook-configuration", "slurm-bridge-admission", "The name of the webhook configurations that shall trust it.")
	ctrlconfig.RegisterFlags(f)
	logs.BindFlags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("there are flags only, got the argument %q", f.Arg(0))
	}
	o.Log = zap.New(zap.UseFlagOptions(&logs))
	ctrl.SetLogger(o.Log)
	klog.SetLogger(o.Log)
	var err error
	if o.Namespace, err = connect.Namespace(o.Namespace); err != nil {
		return fmt.Errorf("--namespace: %w", err)
	}
	if o.Config, err = config.Read(os.DirFS("/"), strings.TrimPrefix(path, "/")); err != nil {
		return err
	}
	if o.Kube, err = ctrl.GetConfig(); err != nil {
		return fmt.Errorf("find the Kubernetes cluster: %w", err)
	}
	return admission.Run(ctx, o)
}
