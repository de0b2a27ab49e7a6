package robust

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/apitest"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// atOnce is how many workloads are under way at a time: more than fit.
const atOnce = 20

// run is the time in which the containers of one pod took cores of a node.
type run struct {
	pod      types.UID
	workload int
	node     string
	cores    []int
	job      string
	from, to time.Time
	succeeds bool
}

// users are those who want workloads done, as a Job controller does: each has one
// pod after the other until one succeeds. They play the kubelets too.
type users struct {
	*world
	total   int
	seed    uint64
	changed chan struct{}

	mu       sync.Mutex
	attempts []int
	done     []int
	next     int
	runs     map[types.UID]*run
	mistakes []string
	created  map[types.UID]string
}

func newUsers(w *world, total int, seed uint64) *users {
	return &users{
		world: w, total: total, seed: seed, changed: make(chan struct{}, 1),
		attempts: make([]int, total), done: make([]int, total), runs: map[types.UID]*run{}, created: map[types.UID]string{},
	}
}

func (u *users) start(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	factory := informers.NewSharedInformerFactory(u.kube, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { u.pod(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { u.pod(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			u.gone(ctx, obj.(*corev1.Pod))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range atOnce {
		u.another(ctx)
	}
}

// another begins the next workload.
func (u *users) another(ctx context.Context) {
	u.mu.Lock()
	i := u.next
	if i < u.total {
		u.next++
	}
	u.mu.Unlock()
	if i < u.total {
		u.attempt(ctx, i)
	}
}

// attempt creates a pod for a workload.
func (u *users) attempt(ctx context.Context, workload int) {
	u.mu.Lock()
	u.attempts[workload]++
	attempt := u.attempts[workload]
	u.mu.Unlock()
	random := u.random(workload)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(workload, attempt), Namespace: namespace,
			Labels: map[string]string{"workload": fmt.Sprint(workload)}, Annotations: map[string]string{v1beta1.AnnotationExclusive: "false"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: config.DefaultSchedulerName, TerminationGracePeriodSeconds: new(int64(2)),
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(1+random.Int64N(3), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}}}},
		},
	}
	pod, err := u.kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		if ctx.Err() == nil {
			u.mistake("create pod %s: %v", p.Name, err)
		}
		return
	}
	u.mu.Lock()
	u.created[pod.UID] = pod.Name
	u.mu.Unlock()
}

// random returns the numbers of a workload, the same in each attempt.
func (u *users) random(workload int) *rand.Rand {
	return rand.New(rand.NewPCG(u.seed, uint64(workload)))
}

func (u *users) mistake(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mistakes = append(u.mistakes, fmt.Sprintf(format, args...))
}

// pod plays the kubelet of a pod that has a node.
func (u *users) pod(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	u.mu.Lock()
	r, known := u.runs[pod.UID]
	if !known {
		r = u.begin(pod)
	}
	u.mu.Unlock()
	switch {
	case !known:
		// It works for a moment, whatever becomes of it meanwhile.
		works := 300*time.Millisecond + time.Duration(u.random(r.workload).IntN(2700))*time.Millisecond
		time.AfterFunc(works, func() { u.end(ctx, pod, r, corev1.PodSucceeded) })
	case pod.DeletionTimestamp != nil:
		// Its containers take their time to stop.
		time.AfterFunc(200*time.Millisecond, func() { u.end(ctx, pod, r, corev1.PodFailed) })
	}
}

// begin records that the containers of a pod run. u.mu is held.
func (u *users) begin(pod *corev1.Pod) *run {
	var workload int
	_, _ = fmt.Sscan(pod.Labels["workload"], &workload)
	cores, err := tres.ParseIndexes(pod.Annotations[v1beta1.AnnotationCores])
	r := &run{
		pod: pod.UID, workload: workload, node: pod.Spec.NodeName, cores: cores, job: pod.Labels[v1beta1.LabelJobID], from: time.Now(),
	}
	u.runs[pod.UID] = r
	switch {
	case err != nil || len(cores) == 0 || r.job == "":
		u.mistakes = append(u.mistakes, fmt.Sprintf("pod %s is bound with the cores %q of job %q", pod.Name, pod.Annotations[v1beta1.AnnotationCores], r.job))
	case u.done[workload] > 0:
		u.mistakes = append(u.mistakes, fmt.Sprintf("pod %s runs although its workload is done", pod.Name))
	}
	for _, other := range u.runs {
		if other != r && other.to.IsZero() && other.node == r.node && slices.ContainsFunc(cores, func(c int) bool { return slices.Contains(other.cores, c) }) {
			u.mistakes = append(u.mistakes, fmt.Sprintf("pod %s of job %s has cores %v of %s, where job %s of workload %d still has %v",
				pod.Name, r.job, cores, r.node, other.job, other.workload, other.cores))
		}
		if other != r && other.to.IsZero() && other.workload == workload {
			u.mistakes = append(u.mistakes, fmt.Sprintf("two pods of workload %d run at once", workload))
		}
	}
	return r
}

// end records and tells that a pod's containers have ended.
func (u *users) end(ctx context.Context, pod *corev1.Pod, r *run, phase corev1.PodPhase) {
	u.mu.Lock()
	first := r.to.IsZero()
	if first {
		r.to, r.succeeds = time.Now(), phase == corev1.PodSucceeded
		if r.succeeds {
			u.done[r.workload]++
		}
	}
	u.mu.Unlock()
	if first {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
		_, err := u.kube.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			u.mistake("tell how pod %s ended: %v", pod.Name, err)
		}
	}
	err := u.kube.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		u.mistake("delete pod %s: %v", pod.Name, err)
	}
}

// gone goes on when a pod is gone: with another attempt, or the next workload.
func (u *users) gone(ctx context.Context, pod *corev1.Pod) {
	var workload int
	_, _ = fmt.Sscan(pod.Labels["workload"], &workload)
	u.mu.Lock()
	done := u.done[workload] > 0
	u.mu.Unlock()
	select {
	case u.changed <- struct{}{}:
	default:
	}
	if done {
		u.another(ctx)
	} else {
		u.attempt(ctx, workload)
	}
}

func (u *users) finished() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, d := range u.done {
		if d > 0 {
			n++
		}
	}
	return n
}

// progress waits until n more workloads are done.
func (u *users) progress(t *testing.T, n int) {
	t.Helper()
	goal := min(u.finished()+n, u.total)
	apitest.Eventually(t, 2*time.Minute, fmt.Sprintf("%d workloads are done", goal), func() error {
		if have := u.finished(); have < goal {
			return fmt.Errorf("%w: %d", errWait, have)
		}
		return nil
	})
}

// finish waits until all workloads are done.
func (u *users) finish(t *testing.T) {
	t.Helper()
	start := time.Now()
	apitest.Eventually(t, 5*time.Minute, "all workloads are done", func() error {
		if have := u.finished(); have < u.total {
			return fmt.Errorf("%w: %d of %d", errWait, have, u.total)
		}
		return nil
	})
	t.Logf("the last workload was done %s after the last fault", time.Since(start).Round(time.Millisecond))
}

// check reports what went wrong on the way.
func (u *users) check(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.mistakes {
		t.Error(m)
	}
	again := 0
	for i, done := range u.done {
		if done != 1 {
			t.Errorf("workload %d was done %d times", i, done)
		}
		again += u.attempts[i] - 1
	}
	t.Logf("%d workloads in %d pods; %d attempts ended early", u.total, len(u.created), again)
}
