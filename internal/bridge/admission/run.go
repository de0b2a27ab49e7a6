// Package admission answers the API server's questions about the pods that Slurm is to place
// and about the objects that own them: it reads what counts for their namespace, and lets
// internal/plan/adopt decide.
package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act/servingcert"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/policies"
)

// Options of admission's process, from flags.
type Options struct {
	Config config.Config
	Kube   *restclient.Config
	// ServerAddress is where the webhooks are served.
	ServerAddress string
	// MetricsAddress and ProbeAddress are where to listen; "0" for nowhere.
	MetricsAddress, ProbeAddress string
	MetricsSecure, HTTP2         bool
	// LeaderElection lets one replica alone renew the certificate; all of them serve.
	LeaderElection bool
	// Namespace is the bridge's: of the policy's ConfigMap, of the certificate's Secret, of the
	// Service, of the lease, and of the service accounts that may write what is the bridge's.
	Namespace string
	// CertDir has tls.crt and tls.key, unless CertSecret names a Secret for one that is made here.
	CertDir, CertSecret    string
	Service, Configuration string
	Log                    logr.Logger
}

// Run serves the webhooks until the context ends.
func Run(ctx context.Context, o Options) error {
	ctx = ctrl.LoggerInto(ctx, o.Log)
	kube := restclient.CopyConfig(o.Kube)
	kube.QPS = -1
	clientset, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return fmt.Errorf("client of Kubernetes: %w", err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	rules := policies.New(o.Config, o.Namespace, factory.Core().V1().Namespaces(), clientset)
	managed, err := managedBy(o.Config)
	if err != nil {
		return err
	}
	certificate, err := o.certificate(kube)
	if err != nil {
		return err
	}
	server, err := o.server(certificate)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		HealthProbeBindAddress: o.ProbeAddress, Metrics: o.metrics(), WebhookServer: server,
		LeaderElection: o.LeaderElection, LeaderElectionID: v1beta1.AdmissionLease,
		LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		Logger: o.Log,
	})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	handler{config: o.Config, rules: rules, managed: managed, bridge: "system:serviceaccounts:" + o.Namespace}.register(server)
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("serving", server.StartedChecker()),
		mgr.Add(replica(func(ctx context.Context) error {
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			rules.Start(ctx.Done())
			// Who doesn't know the rules yet doesn't answer: the API server asks another replica.
			if !cache.WaitForCacheSync(ctx.Done(), rules.Synced()...) {
				return nil
			}
			return server.Start(ctx)
		})),
	)
	if certificate != nil {
		err = errors.Join(err, mgr.Add(certificate), mgr.Add(servingcert.Keeper{Certificate: certificate}), mgr.AddReadyzCheck("certificate", certificate.Ready))
	}
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return mgr.Start(ctx)
}

// replica is what each replica does, leader or not.
type replica func(ctx context.Context) error

// Start implements manager.Runnable.
func (r replica) Start(ctx context.Context) error { return r(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (replica) NeedLeaderElection() bool { return false }

func (o Options) certificate(kube *restclient.Config) (*servingcert.Certificate, error) {
	if o.CertSecret == "" {
		return nil, nil
	}
	direct, err := client.New(kube, client.Options{Scheme: clientscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &servingcert.Certificate{
		Kube: direct, Secret: types.NamespacedName{Namespace: o.Namespace, Name: o.CertSecret},
		Service: o.Service, Configuration: o.Configuration, Owner: v1beta1.AdmissionFieldOwner,
	}, nil
}

func (o Options) server(certificate *servingcert.Certificate) (ctrlwebhook.Server, error) {
	host, port, err := net.SplitHostPort(o.ServerAddress)
	if err != nil {
		return nil, fmt.Errorf("address of the webhooks: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("address of the webhooks: port %q is no number", port)
	}
	return ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: number, CertDir: o.CertDir, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		o.protocols(c)
		if certificate != nil {
			c.GetCertificate = certificate.Get
		}
	}}}), nil
}

// protocols leaves HTTP/2 out unless it is asked for: a client can make it do much work for little (CVE-2023-44487).
func (o Options) protocols(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	if !o.HTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
}

func (o Options) metrics() metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.MetricsAddress, SecureServing: o.MetricsSecure, TLSOpts: []func(*tls.Config){o.protocols}}
	if o.MetricsSecure {
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}
