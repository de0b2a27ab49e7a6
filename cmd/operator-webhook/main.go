// Command operator-webhook checks custom resources before they are stored.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act/servingcert"
	"github.com/slinky-hpc/slinky/internal/operator"
	"github.com/slinky-hpc/slinky/internal/operator/webhook"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "operator-webhook:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	serverAddr, healthAddr, metricsAddr string
	metricsSecure, http2                bool
	leaderElect                         bool
	leaderElectNamespace                string
	namespaces                          string
	certDir, certSecret                 string
	service, configuration, namespace   string
	log                                 zap.Options
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("operator-webhook", flag.ContinueOnError)
	f.StringVar(&o.serverAddr, "server-addr", ":9443", "where the webhooks are served")
	f.StringVar(&o.healthAddr, "health-addr", ":8081", "where /healthz and /readyz are served")
	f.StringVar(&o.metricsAddr, "metrics-addr", "0", "where metrics are served; 0 for nowhere")
	f.BoolVar(&o.metricsSecure, "metrics-secure", false, "serve metrics over HTTPS, to those whom Kubernetes lets get /metrics")
	f.BoolVar(&o.http2, "enable-http2", false, "speak HTTP/2, too")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas renew the certificate; all of them serve")
	f.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", "", "namespace of the lease; the pod's own if empty")
	f.StringVar(&o.namespaces, "namespaces", "", "comma list of the namespaces to look at; all if empty. Which objects are checked is said by the webhook configuration")
	f.StringVar(&o.certDir, "cert-dir", "", "folder with tls.crt and tls.key, followed when they change; controller-runtime's default if empty")
	f.StringVar(&o.certSecret, "cert-secret", "", "make a certificate, and keep it in the Secret of this name; a certificate is read from cert-dir if empty")
	f.StringVar(&o.service, "service", "slurm-operator-webhook", "Service in front of the webhooks, for the made certificate")
	f.StringVar(&o.configuration, "webhook-configuration", "slurm-operator-webhook", "name of the webhook configurations that shall trust the made certificate")
	f.StringVar(&o.namespace, "namespace", "", "namespace of Secret and Service; the pod's own if empty")
	config.RegisterFlags(f)
	o.log.BindFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("there are flags only, got the argument %q", f.Arg(0))
	}
	if o.metricsSecure && o.metricsAddr == "0" {
		return nil, errors.New("--metrics-secure needs a --metrics-addr other than 0")
	}
	if o.namespace == "" && o.certSecret != "" {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil {
			return nil, fmt.Errorf("--namespace is needed outside of a pod: %w", err)
		}
		o.namespace = strings.TrimSpace(string(text))
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	kube, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API server: %w", err)
	}
	kube.QPS, kube.Burst = 100, 200
	scheme, err := operator.Scheme()
	if err != nil {
		return fmt.Errorf("register types: %w", err)
	}
	direct, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var certificate *servingcert.Certificate
	if o.certSecret != "" {
		certificate = &servingcert.Certificate{
			Kube: direct, Secret: types.NamespacedName{Namespace: o.namespace, Name: o.certSecret},
			Service: o.service, Configuration: o.configuration, Owner: v1beta1.WebhookFieldOwner,
		}
	}
	server, err := o.server(certificate)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: scheme, Cache: cache.Options{DefaultNamespaces: o.watched()},
		HealthProbeBindAddress: o.healthAddr, Metrics: o.metrics(), WebhookServer: server,
		LeaderElection: o.leaderElect, LeaderElectionID: v1beta1.WebhookLease,
		LeaderElectionNamespace: o.leaderElectNamespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	webhook.Register(server, direct, scheme)
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("serving", server.StartedChecker()), mgr.Add(server))
	if certificate != nil {
		err = errors.Join(err, mgr.Add(certificate), mgr.Add(servingcert.Keeper{Certificate: certificate}), mgr.AddReadyzCheck("certificate", certificate.Ready))
	}
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return mgr.Start(ctx)
}

func (o *options) server(certificate *servingcert.Certificate) (ctrlwebhook.Server, error) {
	host, port, err := net.SplitHostPort(o.serverAddr)
	if err != nil {
		return nil, fmt.Errorf("--server-addr: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("--server-addr: port %q is no number", port)
	}
	return ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: number, CertDir: o.certDir, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		o.protocols(c)
		if certificate != nil {
			c.GetCertificate = certificate.Get
		}
	}}}), nil
}

// protocols leaves HTTP/2 out unless it is asked for: a client can make it do much work for little (CVE-2023-44487).
func (o *options) protocols(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	if !o.http2 {
		c.NextProtos = []string{"http/1.1"}
	}
}

func (o *options) metrics() metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.metricsAddr, SecureServing: o.metricsSecure, TLSOpts: []func(*tls.Config){o.protocols}}
	if o.metricsSecure {
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}

func (o *options) watched() map[string]cache.Config {
	var out map[string]cache.Config
	for name := range strings.SplitSeq(o.namespaces, ",") {
		if name = strings.TrimSpace(name); name != "" {
			if out == nil {
				out = map[string]cache.Config{}
			}
			out[name] = cache.Config{}
		}
	}
	return out
}
