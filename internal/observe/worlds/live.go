package worlds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
	slurmcache "github.com/slinky-hpc/slinky/slurm/cache"
)

// Live keeps both worlds in memory: one poller for Slurm and one watch for Kubernetes,
// however many look at it.
type Live struct {
	Sources
	// oldest is how old facts may be to be shown as true.
	oldest time.Duration
	slurm  *slurmcache.Cache
	pods   listers.PodLister
	nodes  listers.NodeLister
	synced []cache.InformerSynced

	mu sync.Mutex
	// kube and more are what is asked now and then, rather than followed.
	kube        view.Kubernetes
	partitions  []slurm.Partition
	controllers []slurm.Ping
	slurmFailed string
	cores       map[string]slurm.Allocation
}

// Periods of what is asked rather than followed.
const (
	pulse = 5 * time.Second
	// oldestShown is how old facts may be to be shown as true.
	oldestShown = 30 * time.Second
	// coresAtOnce bounds the allocations that are read in one pulse: one call each.
	coresAtOnce = 32
	// mostCores bounds those that are kept.
	mostCores = 20000
)

// NewLive returns a Live that knows nothing until Run.
func NewLive(s Sources) *Live {
	l := &Live{Sources: s, oldest: oldestShown, cores: map[string]slurm.Allocation{}}
	if client, ok := s.Slurm.(slurm.Client); ok {
		l.slurm = slurmcache.New(client, slurmcache.Options{OnError: func(err error) {
			l.mu.Lock()
			l.slurmFailed = err.Error()
			l.mu.Unlock()
		}})
	}
	return l
}

// Run follows both worlds until ctx ends.
func (l *Live) Run(ctx context.Context) {
	var loops sync.WaitGroup
	if l.slurm != nil {
		loops.Go(func() { l.slurm.Run(ctx) })
	}
	if l.Kube != nil {
		factory := informers.NewSharedInformerFactoryWithOptions(l.Kube, 0, informers.WithTransform(slim))
		pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
		l.mu.Lock()
		l.pods, l.nodes = pods.Lister(), nodes.Lister()
		l.synced = []cache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced}
		l.mu.Unlock()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
	}
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		l.beat(ctx)
		select {
		case <-ctx.Done():
			loops.Wait()
			return
		case <-ticker.C:
		}
	}
}

// slim is what of an object the informers keep.
func slim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		s := view.SlimPod(o)
		view.Clean(&s)
		s.ResourceVersion = o.ResourceVersion
		return &s, nil
	case *corev1.Node:
		s := view.SlimNode(o)
		view.Clean(&s)
		s.ResourceVersion = o.ResourceVersion
		return &s, nil
	}
	return o, nil
}

// beat asks what isn't followed, and by that whether the worlds still answer.
func (l *Live) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*pulse)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { l.beatKubernetes(ctx) })
	both.Go(func() { l.beatSlurm(ctx) })
	both.Wait()
}

func (l *Live) beatKubernetes(ctx context.Context) {
	if l.Kube == nil {
		return
	}
	began := time.Now()
	k := view.Kubernetes{Source: view.Source{Read: began}}
	var controllers v1beta1.ControllerList
	var sets v1beta1.NodeSetList
	version, err := l.Kube.Discovery().ServerVersion()
	if err == nil {
		k.Version = version.GitVersion
		if err = list(ctx, l.Kube, "controllers", &controllers); err == nil {
			err = list(ctx, l.Kube, "nodesets", &sets)
		}
		if err != nil && hidden(&k, "the operator's objects", err) {
			err = nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.kube.Error = err.Error()
		return
	}
	for i := range controllers.Items {
		k.Controllers = append(k.Controllers, controller(&controllers.Items[i]))
	}
	for i := range sets.Items {
		k.NodeSets = append(k.NodeSets, nodeSet(&sets.Items[i]))
	}
	l.kube = k
}

func (l *Live) beatSlurm(ctx context.Context) {
	if l.slurm == nil {
		return
	}
	partitions, err := l.Slurm.Partitions(ctx)
	var controllers []slurm.Ping
	if err == nil {
		controllers, err = l.Slurm.Ping(ctx)
	}
	l.mu.Lock()
	if err != nil {
		l.slurmFailed = err.Error()
	} else {
		l.slurmFailed, l.partitions, l.controllers = "", partitions, controllers
	}
	l.mu.Unlock()
	if err == nil {
		l.readCores(ctx)
	}
}

// readCores reads the cores of jobs that have begun, once each: an allocation doesn't change.
func (l *Live) readCores(ctx context.Context) {
	read := 0
	for _, j := range l.slurm.JobsInState(slurm.JobRunning) {
		key := j.SLUID + "/" + fmt.Sprint(j.ID)
		l.mu.Lock()
		_, known := l.cores[key]
		full := len(l.cores) >= mostCores
		l.mu.Unlock()
		if known || full || !Running(&j) || read >= coresAtOnce {
			continue
		}
		read++
		a, err := l.Slurm.Allocation(ctx, j.ID)
		if err != nil {
			continue
		}
		l.mu.Lock()
		l.cores[key] = a
		l.mu.Unlock()
	}
}

// Facts returns both worlds as they were last seen, and how far that is to be believed.
func (l *Live) Facts() view.Facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := view.Facts{Taken: time.Now(), SchedulerName: l.SchedulerName, Kubernetes: l.kube}
	if l.Kube == nil {
		f.Kubernetes.Absent = true
	} else {
		l.kubernetesFacts(&f)
	}
	f.Slurm = l.slurmFacts(f.Taken)
	view.Clean(&f.Kubernetes.Controllers)
	view.Clean(&f.Slurm)
	return f
}

// kubernetesFacts adds what the informers have. l.mu is held.
func (l *Live) kubernetesFacts(f *view.Facts) {
	k := &f.Kubernetes
	k.Known = !k.Read.IsZero() && f.Taken.Sub(k.Read) <= l.oldest && len(l.synced) > 0
	for _, synced := range l.synced {
		k.Known = k.Known && synced()
	}
	if !k.Known {
		if k.Error == "" {
			k.Error = "pods and nodes have not been read yet"
		}
		return
	}
	pods, _ := l.pods.List(labels.Everything())   // it lists memory
	nodes, _ := l.nodes.List(labels.Everything()) // it lists memory
	for _, p := range pods {
		k.Pods = append(k.Pods, *p)
	}
	for _, n := range nodes {
		k.Nodes = append(k.Nodes, *n)
	}
	slices.SortFunc(k.Pods, func(a, b corev1.Pod) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	slices.SortFunc(k.Nodes, func(a, b corev1.Node) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
}

// slurmFacts returns what the cache has; nothing of it if it is too old. l.mu is held.
func (l *Live) slurmFacts(now time.Time) view.Slurm {
	s := view.Slurm{URL: l.SlurmURL, Absent: l.SlurmAbsent}
	if l.slurm == nil {
		if l.SlurmError != nil {
			s.Error = l.SlurmError.Error()
		}
		return s
	}
	if age := l.slurm.Age(); age >= 0 {
		s.Read = now.Add(-age)
	}
	if err := l.slurm.Fresh(l.oldest); err != nil {
		s.Error = err.Error()
		if l.slurmFailed != "" {
			s.Error = l.slurmFailed
		}
		return s
	}
	s.Known, s.Partitions, s.Controllers = true, l.partitions, l.controllers
	for _, n := range l.slurm.Nodes() {
		s.Nodes = append(s.Nodes, view.SlimSlurmNode(n))
	}
	kept := map[string]slurm.Allocation{}
	for _, j := range l.slurm.Jobs() {
		s.Jobs = append(s.Jobs, view.SlimJob(j))
		key := j.SLUID + "/" + fmt.Sprint(j.ID)
		if a, ok := l.cores[key]; ok {
			kept[key] = a
			s.Allocations = append(s.Allocations, a)
		}
	}
	l.cores = kept
	return s
}
