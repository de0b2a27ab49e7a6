package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Slurm is what the controllers do there.
type Slurm interface {
	UpdateJob(ctx context.Context, id uint32, req slurm.JobRequest) error
	CancelJobs(ctx context.Context, ids ...uint32) error
	SetDerivedExitCode(ctx context.Context, id uint32, code uint8) error
	CreateNode(ctx context.Context, n slurm.NodeCreate) error
	// CreateNodes creates nodes that differ by name and address alone, all or none.
	CreateNodes(ctx context.Context, nodes []slurm.NodeCreate) error
	UpdateNode(ctx context.Context, name string, u slurm.NodeUpdate) error
	DeleteNode(ctx context.Context, name string) error
}

// View is the live view of Slurm that the controllers read.
type View interface {
	Job(id uint32) (slurm.Job, bool)
	Jobs() []slurm.Job
	// Generation counts the readings of jobs.
	Generation() uint64
	Node(name string) (slurm.Node, bool)
	// RefreshJob and RefreshNode read one from Slurm now; false if Slurm doesn't know it.
	RefreshJob(ctx context.Context, id uint32) (bool, error)
	RefreshNode(ctx context.Context, name string) (bool, error)
	// Synced tells whether jobs and nodes have been read whole at least once.
	Synced() bool
	// Wake ends the pause that the view makes on a cluster without jobs, and WakeNodes the one between two readings of nodes.
	Wake()
	WakeNodes()
}

// Events records what happens to objects.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Config is what the controllers need.
type Config struct {
	SchedulerName string
	// Nodes is how nodes are mirrored, and Drivers are whose devices are registered with them.
	Nodes   mirror.Policy
	Drivers device.Drivers
	Slurm   Slurm
	View    View
	Index   *jobs.Index
	// Client reads from the informers, Live from the API server.
	Client client.Client
	Live   client.Reader
	Events Events
	Ends   *metrics.Ends
	// NodeWorkers and PodWorkers are how many nodes, and pods and jobs, are handled at once.
	NodeWorkers, PodWorkers int
}

// Bridge is the controllers, and their ears for what changes in Slurm.
type Bridge struct {
	Config
	pods  ear[types.NamespacedName]
	jobs  ear[uint32]
	nodes ear[string]
	// slices tells whether the API server has ResourceSlices.
	slices   bool
	outcomes outcomes
	exits    exitQueue
	// ending are locks for the jobs that are being cancelled, by their ids.
	ending [64]sync.Mutex
	// indexed is a generation of the view all of whose jobs are in the index.
	catching sync.Mutex
	indexed  uint64
}

// ear passes keys from Slurm's changes to a controller's queue.
type ear[K comparable] chan K

func (e ear[K]) source() source.TypedSource[K] {
	return source.TypedFunc[K](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) error {
		go func() {
			for {
				select {
				case key := <-e:
					queue.Add(key)
				case <-ctx.Done():
					return
				}
			}
		}()
		return nil
	})
}

func (e ear[K]) tell(ctx context.Context, key K) {
	select {
	case e <- key:
	case <-ctx.Done():
	}
}

// indexSlurmName finds Kubernetes nodes by their name in Slurm.
const indexSlurmName = "slurmName"

// Add adds the controllers to a manager.
func Add(ctx context.Context, mgr manager.Manager, c Config) (*Bridge, error) {
	b := &Bridge{
		Config: c,
		pods:   make(ear[types.NamespacedName]), jobs: make(ear[uint32]), nodes: make(ear[string]),
		exits: newExitQueue(),
	}
	if err := mgr.Add(manager.RunnableFunc(b.accountExits)); err != nil {
		return nil, err
	}
	var err error
	if b.slices, err = servesSlices(mgr); err != nil {
		return nil, err
	}
	if err := b.indexNodes(ctx, mgr, b.slices); err != nil {
		return nil, err
	}
	if err := b.addPods(mgr); err != nil {
		return nil, err
	}
	if err := b.addJobs(mgr); err != nil {
		return nil, err
	}
	if err := b.addGroups(mgr); err != nil {
		return nil, err
	}
	if err := b.addClaims(mgr); err != nil {
		return nil, err
	}
	return b, b.addNodes(mgr)
}

// JobChanged tells of a job that is new, changed or gone in Slurm.
func (b *Bridge) JobChanged(ctx context.Context, id uint32) {
	before, _ := b.Index.Get(id)
	j, known := b.Index.Follow(b.View, id)
	if !known {
		return
	}
	if kept, ours := b.Index.Get(id); ours {
		j = kept // with its mark, if somebody has removed that
	}
	mark, ours := workload.Owned(j, b.Index.Cluster())
	c, named := workload.ParseComment(j)
	if !named || c.Mark != nil && !ours {
		return
	}
	if ours {
		b.jobs.tell(ctx, j.ID)
	}
	ended := j.States.JobEnded()
	if ended {
		b.forget(mark)
	}
	// What a job that waits says of itself is nothing to its pods, unless it had its nodes before.
	if ended || !ours || !j.PreemptTime.IsZero() || j.States.Has(slurm.JobSuspended) || before.Nodes != "" && before.Nodes != j.Nodes {
		for _, name := range c.Pods {
			b.pods.tell(ctx, podName(name))
		}
	}
}

// NodeChanged tells of a node that is new, changed or gone in Slurm.
func (b *Bridge) NodeChanged(ctx context.Context, name string) { b.nodes.tell(ctx, name) }

// retryLimit bounds the pause after repeated errors: when Slurm is back, what waited for it goes on soon.
const retryLimit = 10 * time.Second

func options[K comparable](workers int) controller.TypedOptions[K] {
	return controller.TypedOptions[K]{
		MaxConcurrentReconciles: max(workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[K](50*time.Millisecond, retryLimit),
	}
}

func (b *Bridge) addPods(mgr manager.Manager) error {
	type key = types.NamespacedName
	r := &podReaper{b}
	return builder.TypedControllerManagedBy[key](mgr).Named("bridge-pods").
		Watches(&corev1.Pod{}, b.onPods(func(pod *corev1.Pod, add func(key)) {
			add(client.ObjectKeyFromObject(pod))
		})).
		WatchesRawSource(b.pods.source()).
		WithOptions(options[key](b.PodWorkers)).
		Complete(r)
}

func (b *Bridge) addJobs(mgr manager.Manager) error {
	r := &jobReaper{b}
	watch := handler.TypedFuncs[client.Object, uint32]{
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[uint32]) {
			b.jobsOf(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q workqueue.TypedRateLimitingInterface[uint32]) {
			b.jobsOf(e.Object, q)
		},
	}
	return builder.TypedControllerManagedBy[uint32](mgr).Named("bridge-jobs").
		Watches(&corev1.Pod{}, watch).
		WatchesRawSource(b.jobs.source()).
		WithOptions(options[uint32](b.PodWorkers)).
		Complete(r)
}

// jobsOf queues the jobs that name a pod which has ended or is ending.
func (b *Bridge) jobsOf(o client.Object, q workqueue.TypedRateLimitingInterface[uint32]) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.SchedulerName != b.SchedulerName || workload.Live(pod) {
		return
	}
	for _, j := range b.Index.Naming(pod.UID) {
		q.Add(j.ID)
	}
}

func (b *Bridge) onPods(queue func(*corev1.Pod, func(types.NamespacedName))) handler.TypedEventHandler[client.Object, types.NamespacedName] {
	one := func(o client.Object, q workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.SchedulerName == b.SchedulerName {
			queue(pod, q.Add)
		}
	}
	return handler.TypedFuncs[client.Object, types.NamespacedName]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
			one(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
			one(e.ObjectNew, q)
		},
	}
}

func (b *Bridge) addNodes(mgr manager.Manager) error {
	r := &nodeMirror{Bridge: b, registrar: newRegistrar(b.Slurm, b.NodeChanged, b.View.WakeNodes)}
	if err := mgr.Add(manager.RunnableFunc(r.registrar.run)); err != nil {
		return err
	}
	one := func(o client.Object, q workqueue.TypedRateLimitingInterface[string]) {
		if n, ok := o.(*corev1.Node); ok {
			q.Add(placement.SlurmName(n))
		}
	}
	watch := handler.TypedFuncs[client.Object, string]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			one(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			if onlyAlive(e.ObjectOld, e.ObjectNew) {
				return
			}
			one(e.ObjectOld, q)
			one(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q workqueue.TypedRateLimitingInterface[string]) {
			one(e.Object, q)
		},
	}
	c := builder.TypedControllerManagedBy[string](mgr).Named("bridge-nodes").
		Watches(&corev1.Node{}, watch).
		WatchesRawSource(b.nodes.source()).
		WithOptions(options[string](b.NodeWorkers))
	if b.slices {
		c = c.Watches(&resourcev1.ResourceSlice{}, b.onSlices())
	}
	return c.Complete(r)
}
