package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/slurm/cache"
)

// leaseName is shared with the published controllers, so that the two never act at once.
const leaseName = "69d5fe47.my.slinky.slurm.net"

// Options of the controllers' process, from flags.
type Options struct {
	Config      config.Config
	Credentials connect.Credentials
	Kube        *restclient.Config
	// MetricsAddress and ProbeAddress are where to listen; "0" for nowhere.
	MetricsAddress, ProbeAddress string
	// SecureMetrics serves metrics by HTTPS, to whom Kubernetes lets read them.
	SecureMetrics  bool
	LeaderElection bool
	// LeaderNamespace holds the lease; by default the namespace that the process runs in.
	LeaderNamespace         string
	NodeWorkers, PodWorkers int
	Log                     logr.Logger
	// Register takes what is counted.
	Register func(...prometheus.Collector) error
}

// Run runs the controllers until the context ends.
func Run(ctx context.Context, o Options) error {
	ctx = ctrl.LoggerInto(ctx, o.Log)
	kube := restclient.CopyConfig(o.Kube)
	kube.QPS = -1
	clientset, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return fmt.Errorf("client of Kubernetes: %w", err)
	}
	cluster, err := connect.ClusterID(ctx, clientset)
	if err != nil {
		return err
	}
	calls, ends := metrics.NewCalls(), metrics.NewEnds()
	if err := o.Register(calls, ends); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	slurm, err := connect.Client(o.Config, o.Credentials, calls.Observe)
	if err != nil {
		return err
	}
	view := connect.LeanView(slurm, o.Log)
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Logger:                        o.Log,
		Metrics:                       o.metrics(),
		HealthProbeBindAddress:        o.ProbeAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		// The check is that a process names no controller twice; a restart within one process would.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	b, err := Add(ctx, mgr, Config{
		SchedulerName: o.Config.SchedulerName, Nodes: nodePolicy(o.Config, cluster), Drivers: o.Config.Drivers(),
		Slurm: slurm, View: view, Index: jobs.NewIndex(cluster),
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("slurm-bridge"), Ends: ends,
		NodeWorkers: o.NodeWorkers, PodWorkers: o.PodWorkers,
	})
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	if err := addProbes(mgr, view); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return b.follow(ctx, view) })); err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	return mgr.Start(ctx)
}

// nodePolicy is what the configuration says about nodes.
func nodePolicy(c config.Config, cluster string) mirror.Policy {
	p := mirror.Policy{
		Cluster: cluster, SchedulerName: c.SchedulerName, TaintEffect: corev1.TaintEffect(c.ManagedNodeTaint),
		Shared: c.Shared(), Partition: c.Partition,
	}
	if c.ManagedNodeTaint == config.TaintNone {
		p.TaintEffect = ""
	}
	if sink, ok := c.Sink(); ok {
		p.SinkAddress, p.SinkPort = sink.Addr().String(), int(sink.Port())
	}
	return p
}

func (o Options) metrics() metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.MetricsAddress}
	if o.SecureMetrics {
		out.SecureServing, out.FilterProvider = true, filters.WithAuthenticationAndAuthorization
		out.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return out
}

// follow runs the view of Slurm and tells the controllers of its changes. It
// begins when this process leads, so that one that stands by costs Slurm nothing.
func (b *Bridge) follow(ctx context.Context, view *cache.Cache) error {
	stop := view.Subscribe(func(e cache.Event) {
		switch {
		case e.Node != nil && e.Node.New != nil:
			b.NodeChanged(ctx, e.Node.New.Name)
		case e.Node != nil:
			b.NodeChanged(ctx, e.Node.Old.Name)
		case e.Job.New != nil:
			b.JobChanged(ctx, e.Job.New.ID)
		default:
			b.JobChanged(ctx, e.Job.Old.ID)
		}
	})
	defer stop()
	view.Run(ctx)
	return nil
}

// addProbes makes the process live while it runs. It is ready when Slurm has been
// read, and stays so while Slurm is away: a restart would help nobody.
func addProbes(mgr manager.Manager, view *cache.Cache) error {
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("slurm", func(*http.Request) error {
			select {
			case <-mgr.Elected():
			default:
				return nil
			}
			if !view.Synced() {
				return errors.New("Slurm has not been read yet")
			}
			return nil
		}),
	)
}
