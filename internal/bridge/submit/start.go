package submit

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/bridge/claims"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/bridge/policies"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm/cache"
)

// Handle is what kube-scheduler gives its plugins, as far as the submitter needs it.
type Handle interface {
	KubeConfig() *restclient.Config
	SharedInformerFactory() informers.SharedInformerFactory
	EventRecorder() events.EventRecorderLogger
	Activate(logger klog.Logger, pods map[string]*corev1.Pod)
}

// Options of a submitter, from flags.
type Options struct {
	Config      config.Config
	Credentials connect.Credentials
	Workers     int
	// Namespace is the bridge's, where the configuration names a ConfigMap with rules.
	Namespace string
	// Lead is closed when this process may act. One that stands by keeps its
	// informers warm, and asks Slurm nothing.
	Lead <-chan struct{}
	// GiveBack is how long Slurm's nodes are kept for pods that Kubernetes lets not use them.
	GiveBack time.Duration
	// Register takes what is counted.
	Register func(...prometheus.Collector) error
}

// Start starts a submitter beside a scheduler and returns the plugin that it
// feeds. It ends with the context. The scheduler starts the informers.
func Start(ctx context.Context, h Handle, o Options) (*scheduler.Plugin, error) {
	// The scheduler's own limits are for binding; the API server has its own for all.
	kube := restclient.CopyConfig(h.KubeConfig())
	kube.QPS = -1
	client, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("client of Kubernetes: %w", err)
	}
	cluster, err := connect.ClusterID(ctx, client)
	if err != nil {
		return nil, err
	}
	factory := h.SharedInformerFactory()
	sources, err := sourcesOf(factory, kube, client, o.Config)
	if err != nil {
		return nil, err
	}
	rules := policies.New(o.Config, o.Namespace, factory.Core().V1().Namespaces(), client)
	calls, counts := metrics.NewCalls(), metrics.NewSubmissions()
	slurm, err := connect.Client(o.Config, o.Credentials, calls.Observe)
	if err != nil {
		return nil, err
	}
	view := connect.View(slurm, klog.FromContext(ctx))
	table := scheduler.NewTable()
	devices, err := claims.New(factory, claims.Config{
		Client: client, Drivers: o.Config.Drivers(), View: view, SchedulerName: o.Config.SchedulerName,
	})
	if err != nil {
		return nil, err
	}
	s, err := New(Config{
		SchedulerName: o.Config.SchedulerName, Kinds: kindsOf(o.Config),
		Policy: workload.Policy{Cluster: cluster, Partition: o.Config.Partition, MCSLabel: o.Config.MCSLabel, ShareNodes: o.Config.ShareNodes, Drivers: o.Config.Drivers()},
		Slurm:  slurm, View: view, Index: jobs.NewIndex(cluster), Table: table, Client: client, Devices: devices,
		Events: h.EventRecorder(), Sources: sources, Rules: rules, Workers: o.Workers, Now: time.Now,
		Activate: activator(ctx, h), Counts: counts, GiveBack: o.GiveBack,
	})
	if err != nil {
		return nil, err
	}
	counts.SetState(state{s, view})
	if err := o.Register(calls, counts); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	rules.Start(ctx.Done())
	go sources.Custom.Run(ctx)
	s.follow(ctx, view, o.Lead)
	return scheduler.New(table, writer{devices}), nil
}

// follow runs the view of Slurm and the submitter from when this process leads until ctx ends.
func (s *Submitter) follow(ctx context.Context, view *cache.Cache, lead <-chan struct{}) {
	stop := view.Subscribe(func(e cache.Event) {
		switch {
		case e.Node != nil:
			s.NodeChanged(e.Node.Old, e.Node.New)
		case e.Job.New != nil:
			s.JobChanged(e.Job.New.ID)
		default:
			s.JobChanged(e.Job.Old.ID)
		}
	})
	context.AfterFunc(ctx, stop)
	go func() {
		select {
		case <-lead:
		case <-ctx.Done():
			return
		}
		go view.Run(ctx)
		go s.hearRefusals(ctx)
		s.Run(ctx)
	}()
}

// state is what there is now, for who counts it.
type state struct {
	*Submitter
	view *cache.Cache
}

// Age returns how old what is known of Slurm is.
func (s state) Age() time.Duration { return s.view.Age() }

// activator returns what makes the scheduler look at pods that it holds.
func activator(ctx context.Context, h Handle) func(...*corev1.Pod) {
	return func(pods ...*corev1.Pod) {
		byName := make(map[string]*corev1.Pod, len(pods))
		for _, pod := range pods {
			byName[pod.Namespace+"/"+pod.Name] = pod
		}
		h.Activate(klog.FromContext(ctx), byName)
	}
}

// sourcesOf returns what the submitter reads, none of which runs yet.
func sourcesOf(f informers.SharedInformerFactory, kube *restclient.Config, client kubernetes.Interface, c config.Config) (Sources, error) {
	owners, err := metadata.NewForConfig(kube)
	if err != nil {
		return Sources{}, fmt.Errorf("client of Kubernetes' metadata: %w", err)
	}
	custom, err := dynamic.NewForConfig(kube)
	if err != nil {
		return Sources{}, fmt.Errorf("client of Kubernetes' custom resources: %w", err)
	}
	return Sources{
		Pods: f.Core().V1().Pods(), Nodes: f.Core().V1().Nodes(), Jobs: f.Batch().V1().Jobs(),
		Namespaces: f.Core().V1().Namespaces(), Claims: f.Core().V1().PersistentVolumeClaims(),
		Volumes: f.Core().V1().PersistentVolumes(), Classes: f.Storage().V1().StorageClasses(), Devices: f.Resource().V1(),
		Custom: NewCustom(custom, client.Discovery()),
		Owners: NewMetadataOwners(owners, client.Discovery(), ownerResources(c), time.Now),
	}, nil
}

// ownerResources returns the resources of the kinds of owners that are known beforehand.
func ownerResources(c config.Config) map[schema.GroupVersionKind]string {
	out := workload.OwnerResources()
	for _, k := range c.OwnerKinds {
		out[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}] = k.Resource
	}
	return out
}

// kindsOf returns the kinds of owners that count by configuration.
func kindsOf(c config.Config) workload.Kinds {
	var out workload.Kinds
	for _, k := range c.OwnerKinds {
		out.Owners = append(out.Owners, workload.OwnerKind{
			GroupKind: schema.GroupKind{Group: k.Group, Kind: k.Kind}, GangLabel: k.GangLabel,
		})
	}
	return out
}
