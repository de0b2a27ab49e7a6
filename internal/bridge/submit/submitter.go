// Package submit asks Slurm for the pods of the bridge. It runs beside the
// scheduler's plugin in one process: it watches pods and jobs, makes one Slurm job
// of each workload, and writes what Slurm grants to the pods and to the plugin's table.
package submit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/slinky-hpc/slinky/internal/bridge/jobs"
	"github.com/slinky-hpc/slinky/internal/bridge/metrics"
	"github.com/slinky-hpc/slinky/internal/bridge/scheduler"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// Slurm is what the submitter does there.
type Slurm interface {
	AllocateNow(ctx context.Context, req slurm.JobRequest) (uint32, error)
	Submit(ctx context.Context, req slurm.JobRequest) (uint32, error)
	SubmitHet(ctx context.Context, components []slurm.JobRequest) (uint32, error)
	UpdateJob(ctx context.Context, id uint32, req slurm.JobRequest) error
	CancelJobs(ctx context.Context, ids ...uint32) error
	// Allocation returns what a running job was granted.
	Allocation(ctx context.Context, id uint32) (slurm.Allocation, error)
}

// View is the live view of Slurm that the submitter reads.
type View interface {
	Nodes() []slurm.Node
	Jobs() []slurm.Job
	Job(id uint32) (slurm.Job, bool)
	Node(name string) (slurm.Node, bool)
	// Allocation returns what a job was granted that the view shows running.
	Allocation(id uint32) (slurm.Allocation, bool)
	// RefreshJob reads a job from Slurm now; false if Slurm doesn't know it.
	RefreshJob(ctx context.Context, id uint32) (bool, error)
	// RefreshStarted is the same for a job that has just been started: its allocation is read at the same time.
	RefreshStarted(ctx context.Context, id uint32) (bool, error)
	// Synced tells whether all jobs and nodes have been read at least once.
	Synced() bool
	// Generation counts the readings of jobs. One that began after a moment has ended when it has grown by two.
	Generation() uint64
}

// Events records what happens to pods.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Config is what a Submitter needs.
type Config struct {
	SchedulerName string
	Policy        workload.Policy
	// Kinds are the kinds of owners that count.
	Kinds  workload.Kinds
	Slurm  Slurm
	View   View
	Index  *jobs.Index
	Table  *scheduler.Table
	Client kubernetes.Interface
	// Devices may be nil where pods get none.
	Devices Devices
	Events  Events
	// Activate makes the scheduler look at pods that it holds.
	Activate func(pods ...*corev1.Pod)
	Sources  Sources
	// Rules are the namespaces'; without them everything is allowed.
	Rules Rules
	// Workers is how many workloads are handled at once; slurmrestd serves few calls at a time.
	Workers int
	Now     func() time.Time
	// GiveBack is how long Slurm's nodes are kept for pods that Kubernetes lets not use them.
	GiveBack time.Duration
	// Counts takes what is counted; nil for nobody.
	Counts *metrics.Submissions
}

// Submitter makes and follows the Slurm jobs of pods. Make it with New.
type Submitter struct {
	Config
	synced     []cache.InformerSynced
	slurmQueue queueView
	queue      workqueue.TypedRateLimitingInterface[workload.Key]

	mu sync.Mutex
	// uncertain are workloads whose last submission may or may not have reached
	// Slurm, with the generation of the view that will show it.
	uncertain map[workload.Key]uint64
	// blocked are workloads that no node suits now.
	blocked map[workload.Key]bool
	told    map[types.UID]told
	// written are the versions of pods that their allocations were written to.
	written  map[types.UID]string
	refusals refusals
	// occupants is what the bridge's pods have of the nodes.
	occupants *occupants
	// queued are the workloads with a job that waits; views are the numbers of the views of nodes that
	// the exclusions of jobs are from.
	queued map[workload.Key]bool
	views  map[uint32]uint64
	// crowds are the jobs whose pods wait for room on their nodes.
	crowds map[uint32]crowdWait
	// groups is what was told of workloads of several pods, and groupUIDs which there were of a key.
	groups    map[groupID]groupTold
	groupUIDs map[workload.Key][]types.UID
	// nodesNow is the last view of the nodes; nodesOld tells that they have changed since.
	nodesMu  sync.Mutex
	nodesNow *nodeView
	nodesOld bool

	// indexed is a generation of the view all of whose jobs are in the index.
	indexed uint64
}

// New returns a submitter that has the informers' events from now on. Start it with Run.
func New(c Config) (*Submitter, error) {
	if c.Counts == nil {
		c.Counts = metrics.NewSubmissions()
	}
	s := &Submitter{
		Config: c,
		// The factory starts the informers that it was asked for by then, so this can't wait until Run.
		synced: c.Sources.synced(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[workload.Key](100*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[workload.Key]{Name: "slurm_submit"}),
		uncertain: map[workload.Key]uint64{},
		blocked:   map[workload.Key]bool{},
		told:      map[types.UID]told{},
		written:   map[types.UID]string{},
		refusals:  newRefusals(),
		occupants: newOccupants(),
		queued:    map[workload.Key]bool{},
		views:     map[uint32]uint64{},
		crowds:    map[uint32]crowdWait{},
		groups:    map[groupID]groupTold{},
		groupUIDs: map[workload.Key][]types.UID{},
	}
	if s.Rules != nil {
		s.synced = append(s.synced, s.Rules.Synced()...)
		if err := s.Rules.OnChange(s.rulesChanged); err != nil {
			return nil, err
		}
	}
	return s, s.watch()
}

// Run handles workloads until the context ends. The informers must be running.
func (s *Submitter) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.queue.ShutDown)
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	var wg sync.WaitGroup
	for range max(s.Workers, 1) {
		wg.Go(func() {
			for s.one(ctx) {
			}
		})
	}
	wg.Go(func() { s.keepJobs(ctx) })
	wg.Go(func() { s.keepTelling(ctx) })
	wg.Wait()
}

func (s *Submitter) one(ctx context.Context) bool {
	key, stop := s.queue.Get()
	if stop {
		return false
	}
	defer s.queue.Done(key)
	again, err := s.reconcile(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		klog.FromContext(ctx).Error(err, "Can't handle the workload yet", "workload", key.String())
		s.queue.AddRateLimited(key)
	default:
		s.queue.Forget(key)
		if again > 0 {
			s.queue.AddAfter(key, again)
		}
	}
	return true
}

// JobChanged tells of a job that is new, changed or gone in Slurm.
func (s *Submitter) JobChanged(id uint32) {
	before, _ := s.Index.Get(id)
	now, _ := s.Index.Follow(s.View, id)
	if !now.States.Has(slurm.JobPending) {
		s.forgetJob(id, now.States.JobEnded())
	}
	for _, j := range []slurm.Job{before, now} {
		if mark, ok := workload.Owned(j, s.Index.Cluster()); ok {
			s.enqueueMark(j, mark)
		}
	}
}

// NodeChanged tells of a node that is new, changed or gone in Slurm.
func (s *Submitter) NodeChanged(before, now *slurm.Node) {
	if before == nil || now == nil || before.Threads != now.Threads || !slices.Equal(before.Partitions, now.Partitions) {
		s.nodesChanged()
	}
}

func (s *Submitter) enqueueMark(j slurm.Job, mark workload.Mark) {
	c, _ := workload.ParseComment(j)
	for i, name := range c.Pods {
		namespace, name, err := cache.SplitMetaNamespaceKey(name)
		if err != nil {
			continue
		}
		if pod, err := s.Sources.Pods.Lister().Pods(namespace).Get(name); err == nil && pod.UID == mark.Pods[i] {
			s.queue.Add(s.Kinds.KeyOf(pod))
		}
	}
}

// reconcile brings one workload a step further. It returns after which time to
// look again where no event will tell.
func (s *Submitter) reconcile(ctx context.Context, key workload.Key) (time.Duration, error) {
	if wait := s.unsure(key); wait > 0 {
		return wait, nil
	}
	again, runs, err := s.pass(ctx, key)
	if runs && err == nil {
		// What Slurm gave at once is written at once: the scheduler binds it while others are asked for.
		again, _, err = s.pass(ctx, key)
	}
	return again, err
}

// pass takes the steps that are due. It tells whether a job that it asked for runs already.
func (s *Submitter) pass(ctx context.Context, key workload.Key) (again time.Duration, runs bool, err error) {
	observed, err := s.observe(ctx, key)
	switch {
	case errors.Is(err, errNotRead):
		again, err = s.notRead(ctx, key, err)
		return again, false, err
	case err != nil:
		return 0, false, err
	}
	var errs []error
	queued := false
	for _, o := range observed {
		for _, step := range workload.Next(o) {
			queued = queued || step.Kind == workload.StepQueued
			if err := s.loosen(ctx, step); err != nil {
				errs = append(errs, err)
				continue
			}
			after, err := s.act(ctx, o, step)
			errs = append(errs, err)
			again = sooner(again, after)
			runs = runs || step.Kind == workload.StepSubmit && slices.ContainsFunc(s.Index.Naming(step.Pods[0].UID), workload.Granted)
		}
	}
	s.setQueued(key, queued)
	after, err := s.tellGroups(ctx, key, observed)
	return sooner(again, after), runs, errors.Join(append(errs, err)...)
}

// unsure returns how long to wait before the jobs in the index are sure to hold
// one that an earlier call made, of this process or one before it; 0 when they do.
func (s *Submitter) unsure(key workload.Key) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := max(s.uncertain[key], 1)
	generation := s.View.Generation()
	if !s.View.Synced() || generation < needed {
		return 100 * time.Millisecond
	}
	if s.indexed < needed {
		// The view tells of its changes a moment after it has them.
		for _, j := range s.View.Jobs() {
			s.Index.Follow(s.View, j.ID)
		}
		s.indexed = generation
	}
	delete(s.uncertain, key)
	return 0
}

func (s *Submitter) setUncertain(key workload.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncertain[key] = s.View.Generation() + 2
}

func (s *Submitter) setBlocked(key workload.Key, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if blocked {
		s.blocked[key] = true
	} else {
		delete(s.blocked, key)
	}
}

func (s *Submitter) retryBlocked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.blocked {
		s.queue.Add(key)
	}
}

// forget drops what is kept about a pod that is gone or bound.
func (s *Submitter) forget(uid types.UID) {
	s.Table.Delete(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, uid)
	delete(s.written, uid)
	s.refusals.forget(uid)
}
