package operator

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/act"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/observe"
	"github.com/slinky-hpc/slinky/internal/plan/cluster"
	"github.com/slinky-hpc/slinky/internal/plan/nodeset"
	"github.com/slinky-hpc/slinky/slurm"
)

// workers is the size of the NodeSet that the benchmark makes.
const workers = 2000

// BenchmarkNodeSet2000 makes a NodeSet's pods on a real API server, beside as many made by
// bare calls in the same run, and reconciles it once there is nothing left to do.
func BenchmarkNodeSet2000(b *testing.B) {
	server := apitest.Start(b)
	ctrl.SetLogger(logr.Discard())
	s := newScale(b, server)
	server.Apply(b, "examples", "slurm-cluster", "cluster.yaml")
	s.size(b, 1)
	s.reconcileUntil(b, func() bool { return s.pods(b) == 1 })
	s.reconcile(b) // which learns that the informers show the pod; else it is taken for on its way long after its deletion
	worker := s.list(b)[0]
	s.size(b, 0)
	if err := s.admin.Delete(b.Context(), worker.DeepCopy()); err != nil {
		b.Fatal(err)
	}
	s.reconcileUntil(b, func() bool { return s.pods(b) == 0 })
	bare := s.bare(b, &worker)

	s.size(b, workers)
	begin, made := time.Now(), s.writes.Load()
	s.reconcileUntil(b, func() bool { return s.pods(b) == workers })
	ours := time.Since(begin)
	made = s.writes.Load() - made

	s.ready(b)
	quiet := 0
	s.reconcileUntil(b, func() bool {
		before := s.writes.Load()
		s.reconcile(b)
		if s.writes.Load() == before {
			quiet++
		} else {
			quiet = 0
		}
		return quiet == 3
	})
	writes, slurmWrites, cpu, rounds := s.writes.Load(), s.slurm.writes.Load(), processor(b), 0
	for b.Loop() {
		s.reconcile(b)
		rounds++
	}
	b.ReportMetric(workers/bare.Seconds(), "bare-pods/s")
	b.ReportMetric(workers/ours.Seconds(), "pods/s")
	b.ReportMetric(bare.Seconds()/ours.Seconds(), "pods/bare")
	b.ReportMetric(float64(made)/workers, "api-writes/pod")
	b.ReportMetric((processor(b)-cpu).Seconds()/float64(rounds), "cpu-sec/op")
	b.ReportMetric(float64(s.writes.Load()-writes), "api-writes")
	b.ReportMetric(float64(s.slurm.writes.Load()-slurmWrites), "slurm-writes")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-in-use")
}

// scale is a NodeSet reconciler with real informers, and a Slurm whose nodes are its pods.
type scale struct {
	admin      client.Client
	manager    ctrl.Manager
	reconciler *nodeSetReconciler
	slurm      *countingSlurm
	writes     atomic.Int64
}

// countingSlurm counts what is written to Slurm.
type countingSlurm struct {
	*fakeSlurm
	writes atomic.Int64
}

func (c *countingSlurm) UpdateNode(ctx context.Context, name string, u slurm.NodeUpdate) error {
	c.writes.Add(1)
	if u.Comment != nil {
		c.mu.Lock()
		n := c.nodes[name]
		n.Comment = *u.Comment
		c.nodes[name] = n
		c.mu.Unlock()
	}
	return c.fakeSlurm.UpdateNode(ctx, name, u)
}

func newScale(b *testing.B, server *apitest.Server) *scale {
	scheme, err := Scheme()
	if err != nil {
		b.Fatal(err)
	}
	s := &scale{slurm: &countingSlurm{fakeSlurm: &fakeSlurm{nodes: map[string]slurm.Node{}}}}
	if s.admin, err = client.New(server.Config, client.Options{Scheme: scheme}); err != nil {
		b.Fatal(err)
	}
	config := *server.Config
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				s.writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	s.manager, err = ctrl.NewManager(&config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Cache: CacheOptions()})
	if err != nil {
		b.Fatal(err)
	}
	clusters := observe.NewClusters(func(string, []byte) (slurm.Client, error) { return s.slurm, nil }, func(types.NamespacedName) {})
	recorder := &events.FakeRecorder{}
	c := s.manager.GetClient()
	s.reconciler = &nodeSetReconciler{recorder: recorder, shared: &shared{
		Client: c, now: time.Now, clusters: clusters,
		Options: Options{Images: cluster.ImagesOf("registry.example.com", "1"), ClusterDomain: "cluster.local"},
		applier: &act.Applier{Client: c, Recorder: recorder, FieldOwner: v1beta1.OperatorFieldOwner},
	}}
	if err := clusters.Use(types.NamespacedName{Namespace: "slurm", Name: "slurm"}, "http://slurm", []byte("key"), time.Time{}); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = clusters.Start(ctx) })
	running.Go(func() { _ = s.manager.Start(ctx) })
	b.Cleanup(func() { stop(); running.Wait() })
	return s
}

// size sets the number of workers, and waits until the informers show it.
func (s *scale) size(b *testing.B, n int32) {
	key := types.NamespacedName{Namespace: "slurm", Name: "cpu"}
	set := &v1beta1.NodeSet{}
	if err := s.admin.Get(b.Context(), key, set); err != nil {
		b.Fatal(err)
	}
	set.Spec.Replicas = &n
	if err := s.admin.Update(b.Context(), set); err != nil {
		b.Fatal(err)
	}
	seen := func(ctx context.Context) (bool, error) {
		err := s.manager.GetClient().Get(ctx, key, set)
		return err == nil && *set.Spec.Replicas == n, nil
	}
	if err := wait.PollUntilContextTimeout(b.Context(), 10*time.Millisecond, time.Minute, true, seen); err != nil {
		b.Fatal(err)
	}
}

// bare makes as many pods like a worker by calls alone, as many at once as the operator does.
func (s *scale) bare(b *testing.B, worker *corev1.Pod) time.Duration {
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{Spec: *worker.Spec.DeepCopy(), ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("bare-%d", i), Labels: worker.Labels, Annotations: worker.Annotations,
			OwnerReferences: worker.OwnerReferences}}
	}
	begin := time.Now()
	if errs := atOnce(b.Context(), workers, func(i int) error { return s.admin.Create(b.Context(), pod(i)) }); len(errs) > 0 {
		b.Fatal(errs[0])
	}
	return time.Since(begin)
}

func (s *scale) reconcile(b *testing.B) {
	_, err := s.reconciler.Reconcile(b.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "slurm", Name: "cpu"}})
	if err != nil {
		b.Logf("reconcile: %v", err)
	}
}

func (s *scale) reconcileUntil(b *testing.B, done func() bool) {
	deadline := time.Now().Add(3 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			b.Fatal("not after 3 minutes")
		}
		s.reconcile(b)
	}
}

func (s *scale) list(b *testing.B) []corev1.Pod {
	var list corev1.PodList
	err := s.manager.GetClient().List(b.Context(), &list, client.InNamespace("slurm"), client.MatchingLabels(nodeset.Selector("cpu")), client.UnsafeDisableDeepCopy)
	if err != nil {
		b.Logf("list: %v", err) // until the informers are there
	}
	return list.Items
}

func (s *scale) pods(b *testing.B) int { return len(s.list(b)) }

// ready plays the kubelets and slurmds.
func (s *scale) ready(b *testing.B) {
	pods := s.list(b)
	errs := atOnce(b.Context(), len(pods), func(i int) error {
		pod := pods[i].DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		s.slurm.set(nodeset.SlurmNode(pod), slurm.NodeIdle)
		return s.admin.Status().Update(b.Context(), pod)
	})
	if len(errs) > 0 {
		b.Fatal(errs[0])
	}
}

// processor is how much time of the processors the program has used, the cache's poller with it.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
