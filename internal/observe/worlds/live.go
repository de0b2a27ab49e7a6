package worlds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
	slurmcache "github.com/slinky-hpc/slinky/slurm/cache"
)

// Live keeps both worlds in memory: one poller for Slurm and one watch for Kubernetes,
// however many look at it. Each part has an age of its own, and what is too old isn't shown.
type Live struct {
	Sources
	// oldest is how old facts may be to be shown as true.
	oldest time.Duration
	// pulse is how often is asked what isn't followed.
	pulse       time.Duration
	pods, nodes *follower

	mu    sync.Mutex
	slurm *slurmcache.Cache
	// What is asked now and then, rather than followed.
	version     asked[string]
	controllers asked[[]view.Controller]
	sets        asked[[]view.NodeSet]
	partitions  asked[[]slurm.Partition]
	pings       asked[[]slurm.Ping]
	hidden      map[string]string
	slurmFailed string
	cores       map[string]slurm.Allocation
}

// asked is an answer, and when it was had.
type asked[T any] struct {
	value T
	read  time.Time
	// err is that of the last try, nil if it went well.
	err error
}

// had takes an answer over, or else its error: the value before stays until it is too old.
func (a *asked[T]) had(value T, began time.Time, err error) {
	if a.err = err; err == nil {
		a.value, a.read = value, began
	}
}

// known returns the value, or else the part that is missing.
func (a *asked[T]) known(what string, now time.Time, oldest time.Duration) (value T, missing *view.Part) {
	if !a.read.IsZero() && now.Sub(a.read) <= oldest && !apierrors.IsForbidden(a.err) {
		return a.value, nil
	}
	p := &view.Part{What: what, Read: a.read, Forbidden: apierrors.IsForbidden(a.err)}
	switch {
	case a.err != nil:
		p.Error = a.err.Error()
	case !a.read.IsZero():
		p.Error = "there was no answer since"
	}
	return value, p
}

// Periods of what is asked rather than followed.
const (
	pulse = 5 * time.Second
	// lookAgain is how often Slurm is looked for where none is known.
	lookAgain = 15 * time.Second
	// oldestShown is how old facts may be to be shown as true.
	oldestShown = 30 * time.Second
	// coresAtOnce bounds the allocations that are read in one pulse: one call each.
	coresAtOnce = 32
	// mostCores bounds those that are kept.
	mostCores = 20000
)

// NewLive returns a Live that knows nothing until Run.
func NewLive(s Sources) *Live {
	l := &Live{Sources: s, oldest: oldestShown, pulse: pulse, cores: map[string]slurm.Allocation{}, hidden: map[string]string{}}
	if s.Kube != nil {
		core := s.Kube.CoreV1()
		l.pods = &follower{fallback: s.Namespace, lasts: watchLasts, again: probeEach, source: source{
			what: view.PartPods, right: "pods", example: &corev1.Pod{},
			list: func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
				return core.Pods(namespace).List(ctx, o)
			},
			watch: func(ctx context.Context, namespace string, o metav1.ListOptions) (watch.Interface, error) {
				return core.Pods(namespace).Watch(ctx, o)
			},
		}}
		l.nodes = &follower{lasts: watchLasts, again: probeEach, source: source{
			what: view.PartNodes, right: "nodes", example: &corev1.Node{},
			list: func(ctx context.Context, _ string, o metav1.ListOptions) (runtime.Object, error) {
				return core.Nodes().List(ctx, o)
			},
			watch: func(ctx context.Context, _ string, o metav1.ListOptions) (watch.Interface, error) {
				return core.Nodes().Watch(ctx, o)
			},
		}}
	}
	l.poller()
	return l
}

// poller makes the poller of Slurm, if Slurm is known by now, and tells whether it has made it.
func (l *Live) poller() bool {
	client, ok := l.Slurm.(slurm.Client)
	if !ok || l.slurm != nil {
		return false
	}
	l.slurm = slurmcache.New(client, slurmcache.Options{OnError: func(err error) {
		l.mu.Lock()
		l.slurmFailed = err.Error()
		l.mu.Unlock()
	}})
	return true
}

// Run follows both worlds until ctx ends.
func (l *Live) Run(ctx context.Context) {
	var loops sync.WaitGroup
	each := func(period time.Duration, ask func(ctx context.Context)) {
		loops.Go(func() {
			for ctx.Err() == nil {
				bounded, cancel := context.WithTimeout(ctx, 2*pulse)
				ask(bounded)
				cancel()
				wait(ctx, period)
			}
		})
	}
	if l.Kube != nil {
		loops.Go(func() { l.pods.run(ctx) })
		loops.Go(func() { l.nodes.run(ctx) })
		each(l.pulse, l.askVersion)
		each(l.pulse, askKind(l, "controllers", view.PartControllers, func(k *v1beta1.ControllerList) []v1beta1.Controller { return k.Items }, controller, &l.controllers))
		each(l.pulse, askKind(l, "nodesets", view.PartNodeSets, func(k *v1beta1.NodeSetList) []v1beta1.NodeSet { return k.Items }, nodeSet, &l.sets))
	}
	loops.Go(func() {
		if l.slurm == nil && !l.findSlurm(ctx) {
			return
		}
		l.mu.Lock()
		client := l.Slurm
		l.mu.Unlock()
		each(l.pulse, func(ctx context.Context) {
			began := time.Now()
			answer, err := client.Partitions(ctx)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.partitions.had(answer, began, err)
		})
		each(l.pulse, func(ctx context.Context) {
			began := time.Now()
			answer, err := client.Ping(ctx)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.pings.had(answer, began, err)
		})
		each(l.pulse, func(ctx context.Context) { l.readCores(ctx, client) })
		l.slurm.Run(ctx)
	})
	loops.Wait()
}

// findSlurm looks for Slurm until there is one: the bridge, its Secret or the API server may
// come later than this program. It gives up where nothing can change, and at the end of ctx.
func (l *Live) findSlurm(ctx context.Context) bool {
	for l.again != nil {
		wait(ctx, lookAgain)
		if ctx.Err() != nil {
			return false
		}
		found, err := l.again(ctx)
		if err != nil {
			continue
		}
		l.mu.Lock()
		l.SlurmURL, l.SlurmError, l.SlurmAbsent, l.SchedulerName, l.Slurm = found.SlurmURL, found.SlurmError, found.SlurmAbsent, found.SchedulerName, found.Slurm
		made := l.poller()
		l.mu.Unlock()
		if made {
			return true
		}
	}
	return false
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

func (l *Live) askVersion(context.Context) {
	began := time.Now()
	version, err := l.Kube.Discovery().ServerVersion()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.version.had("", began, err)
		return
	}
	l.version.had(version.GitVersion, began, nil)
}

// askKind returns what asks for the operator's objects of a kind, and keeps what is shown of them in into.
func askKind[L, T, V any](l *Live, resource, what string, items func(*L) []T, shown func(*T) V, into *asked[[]V]) func(context.Context) {
	return func(ctx context.Context) {
		began := time.Now()
		var read L
		lacks, err := listVisible(ctx, l.Kube, resource, l.Namespace, &read)
		var out []V
		for list, i := items(&read), 0; i < len(list); i++ {
			out = append(out, shown(&list[i]))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		into.had(out, began, err)
		l.hidden[what] = lacks
	}
}

// readCores reads the cores of jobs that have begun, once each: an allocation doesn't change.
func (l *Live) readCores(ctx context.Context, client Slurm) {
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
		a, err := client.Allocation(ctx, j.ID)
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
	f := view.Facts{Taken: time.Now(), SchedulerName: l.SchedulerName}
	if l.Kube == nil {
		f.Kubernetes.Absent = true
	} else {
		f.Kubernetes = l.kubernetesFacts(f.Taken)
	}
	f.Slurm = l.slurmFacts(f.Taken)
	clean(&f)
	return f
}

// clean cleans what wasn't cleaned when it came: pods and nodes are shared with the informers.
func clean(f *view.Facts) {
	view.Clean(&f.Kubernetes.Controllers)
	view.Clean(&f.Kubernetes.NodeSets)
	view.Clean(&f.Kubernetes.Source)
	view.Clean(&f.Slurm)
}

// kubernetesFacts returns what is known of Kubernetes. l.mu is held.
func (l *Live) kubernetesFacts(now time.Time) view.Kubernetes {
	var k view.Kubernetes
	pending, parts := false, 0
	lacks := func(p *view.Part) {
		if parts++; p != nil {
			k.Missing = append(k.Missing, *p)
			pending = pending || p.Error == ""
		}
	}
	pods, way, missing := l.pods.known(now, l.oldest)
	lacks(missing)
	if missing == nil {
		k.Namespace = way.namespace
		k.Hidden = append(k.Hidden, degraded(view.PartPods, way)...)
	}
	nodes, nodesWay, missing := l.nodes.known(now, l.oldest)
	lacks(missing)
	if missing == nil {
		k.Hidden = append(k.Hidden, degraded(view.PartNodes, nodesWay)...)
	}
	k.Controllers, missing = l.controllers.known(view.PartControllers, now, l.oldest)
	lacks(missing)
	k.NodeSets, missing = l.sets.known(view.PartNodeSets, now, l.oldest)
	lacks(missing)
	for _, what := range []string{view.PartControllers, view.PartNodeSets} {
		if text := l.hidden[what]; text != "" && !k.Lacks(what) {
			k.Hidden = append(k.Hidden, text)
		}
	}
	for _, p := range k.Missing {
		if p.Forbidden {
			k.Hidden = append(k.Hidden, p.What+" are not shown: "+p.Error)
		}
	}
	k.Version, missing = l.version.known("version", now, l.oldest)
	answered := missing == nil
	if !answered && (len(k.Missing) == parts || pending) {
		return l.silent(k.Missing, missing)
	}
	k.Known = !pending
	if !k.Known {
		k.Error = "pods and nodes have not been read yet"
		return view.Kubernetes{Source: view.Source{Error: k.Error}}
	}
	k.Read = now
	for _, p := range pods {
		k.Pods = append(k.Pods, *p.(*corev1.Pod))
	}
	for _, n := range nodes {
		k.Nodes = append(k.Nodes, *n.(*corev1.Node))
	}
	slices.SortFunc(k.Pods, func(a, b corev1.Pod) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	slices.SortFunc(k.Nodes, func(a, b corev1.Node) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return k
}

// silent is an API server that gives no answer to anything.
func (l *Live) silent(parts []view.Part, version *view.Part) view.Kubernetes {
	s := view.Source{Error: version.Error, Read: version.Read}
	for _, p := range parts {
		s.Error = cmp.Or(s.Error, p.Error)
		if p.Read.After(s.Read) {
			s.Read = p.Read
		}
	}
	s.Error = cmp.Or(s.Error, "pods and nodes have not been read yet")
	return view.Kubernetes{Source: s}
}

// degraded says what of a part isn't seen, or not at once, and for which right.
func degraded(what string, w way) []string {
	var out []string
	for _, right := range w.lacks {
		switch {
		case w.polled && strings.Contains(right, "may not watch"):
			out = append(out, fmt.Sprintf("%s are read every %d s: %s", what, int(pollEach.Seconds()), right))
		default:
			out = append(out, fmt.Sprintf("only the %s of namespace %s are shown: %s", what, w.namespace, right))
		}
	}
	return out
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
	s.Known = true
	var missing *view.Part
	lacks := func() {
		if missing != nil && missing.Error != "" { // else it is about to be read for the first time
			s.Missing = append(s.Missing, *missing)
		}
	}
	s.Partitions, missing = l.partitions.known(view.PartPartitions, now, l.oldest)
	lacks()
	s.Controllers, missing = l.pings.known(view.PartPings, now, l.oldest)
	lacks()
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
