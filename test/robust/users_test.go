package robust

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

// atOnce is how many workloads are under way at a time: more than fit.
const atOnce = 20

// users are those who want workloads done, as a Job controller does: each has the pods of one
// attempt after the other, until all pods of one have succeeded. They play the kubelets too.
type users struct {
	*world
	total int
	seed  uint64

	mu        sync.Mutex
	next      int
	workloads map[int]*wanted
	runs      map[types.UID]*run
	created   map[types.UID]string
	mistakes  []string
	// broken is why the run can't go on.
	broken error
}

// wanted is a workload.
type wanted struct {
	attempts, done int
	now            *attempt
}

// attempt is the pods that a workload has at a time.
type attempt struct {
	pods []*corev1.Pod
	// left are those that are not gone.
	left, succeeded int
	failed          bool
}

// run is the time in which the containers of one pod took cores of a node.
type run struct {
	seenPod
	workload int
	of       *attempt
	ended    bool
}

func newUsers(w *world, total int, seed uint64) *users {
	return &users{world: w, total: total, seed: seed, workloads: map[int]*wanted{}, runs: map[types.UID]*run{}, created: map[types.UID]string{}}
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
		go u.another(ctx)
	}
}

// another begins the next workload.
func (u *users) another(ctx context.Context) {
	u.mu.Lock()
	i := u.next
	if i < u.total {
		u.next++
		u.workloads[i] = &wanted{}
	}
	u.mu.Unlock()
	if i < u.total {
		u.try(ctx, i)
	}
}

// try creates the pods of a workload.
func (u *users) try(ctx context.Context, workload int) {
	s := shapeOf(workload, u.random(workload).Int64N)
	u.mu.Lock()
	w := u.workloads[workload]
	w.attempts++
	name := fmt.Sprintf("w%d-%d", workload, w.attempts)
	a := &attempt{pods: s.pods(workload, name), left: len(s.cpus)}
	w.now = a
	u.mu.Unlock()
	if len(a.pods) > 1 {
		if err := admitted(ctx, func() error { return u.groups.Create(ctx, s.group(name)) }); err != nil {
			u.halt(ctx, fmt.Errorf("create PodGroup %s: %w", name, err))
			return
		}
	}
	for _, p := range a.pods {
		var pod *corev1.Pod
		err := admitted(ctx, func() (err error) {
			pod, err = u.kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			u.halt(ctx, fmt.Errorf("create pod %s: %w", p.Name, err))
			return
		}
		u.mu.Lock()
		u.created[pod.UID] = pod.Name
		failed := a.failed
		u.mu.Unlock()
		if failed { // an earlier one has ended before this one was there
			u.remove(ctx, pod.Name)
		}
	}
}

// halt ends the run: a workload without its pods would be waited for in vain.
func (u *users) halt(ctx context.Context, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ctx.Err() == nil && u.broken == nil {
		u.broken = err
	}
}

// remove deletes a pod as a user does, with its grace period.
func (u *users) remove(ctx context.Context, name string) {
	err := u.kube.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		u.halt(ctx, fmt.Errorf("delete pod %s: %w", name, err))
	}
}

// random returns the numbers of a workload, the same in each attempt.
func (u *users) random(workload int) *rand.Rand {
	return rand.New(rand.NewPCG(u.seed, uint64(workload)))
}

func (u *users) wrong(format string, args ...any) {
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

// begin records that the containers of a pod run. u.mu is held. A watch tells of
// each pod, so no core that is given twice is missed here, for how short a time it may be.
func (u *users) begin(pod *corev1.Pod) *run {
	workload := workloadOf(pod)
	w := u.workloads[workload]
	seen, err := podOf(pod)
	if err != nil {
		u.wrong("%v", err)
	}
	r := &run{seenPod: seen, workload: workload, of: w.now}
	u.runs[pod.UID] = r
	if len(seen.cores) == 0 || seen.job == "" {
		u.wrong("%s is bound without cores or without a job", seen)
	}
	if w.done > 0 {
		u.wrong("%s runs although its workload is done", seen)
	}
	for _, other := range u.runs {
		if other == r || other.ended {
			continue
		}
		if other.node == r.node && overlap(other.cores, r.cores) {
			u.wrong("%s has cores that %s still has", r.seenPod, other.seenPod)
		}
		if other.workload == workload && other.of != r.of {
			u.wrong("%s runs beside %s of an earlier attempt", r.seenPod, other.seenPod)
		}
	}
	return r
}

func workloadOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Labels[labelWorkload])
	if err != nil {
		panic(err) // the test's own label
	}
	return n
}

// end records and tells that a pod's containers have ended.
func (u *users) end(ctx context.Context, pod *corev1.Pod, r *run, phase corev1.PodPhase) {
	u.mu.Lock()
	first := !r.ended
	r.ended = true
	if first && phase == corev1.PodSucceeded {
		if r.of.succeeded++; r.of.succeeded == len(r.of.pods) {
			u.workloads[r.workload].done++
		}
	}
	u.mu.Unlock()
	pods := u.kube.CoreV1().Pods(namespace)
	if first {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			u.halt(ctx, fmt.Errorf("tell how pod %s ended: %w", pod.Name, err))
		}
		if phase == corev1.PodFailed {
			u.fail(ctx, r.of)
		}
	}
	err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		u.halt(ctx, fmt.Errorf("delete pod %s: %w", pod.Name, err))
	}
}

// fail ends the other pods of an attempt that can't succeed any more.
func (u *users) fail(ctx context.Context, a *attempt) {
	u.mu.Lock()
	before := a.failed
	a.failed = true
	u.mu.Unlock()
	if before || len(a.pods) == 1 {
		return
	}
	for _, p := range a.pods {
		u.remove(ctx, p.Name)
	}
}

// gone goes on when a pod is gone; when it was the last, with another attempt or the next workload.
func (u *users) gone(ctx context.Context, pod *corev1.Pod) {
	workload := workloadOf(pod)
	u.mu.Lock()
	w := u.workloads[workload]
	a := w.now
	a.left--
	left, done, ran := a.left, w.done > 0, u.runs[pod.UID] != nil
	u.mu.Unlock()
	switch {
	case left > 0 && !ran:
		u.fail(ctx, a)
	case left > 0:
	case done:
		go u.another(ctx) // it may have to wait for admission, and kubelets go on meanwhile
	default:
		go u.try(ctx, workload)
	}
}

// finished is how many workloads are done. It ends the test when the run can't go on.
func (u *users) finished(t *testing.T) int {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.broken != nil {
		t.Fatal(u.broken)
	}
	n := 0
	for _, w := range u.workloads {
		if w.done > 0 {
			n++
		}
	}
	return n
}

// reach waits until so many workloads are done.
func (u *users) reach(t *testing.T, goal int) {
	t.Helper()
	apitest.Eventually(t, 2*time.Minute, fmt.Sprintf("%d workloads are done", goal), func() error {
		if have := u.finished(t); have < goal {
			return fmt.Errorf("%w: %d", errWait, have)
		}
		return nil
	})
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
	for i := range u.total {
		w := u.workloads[i]
		if w.done != 1 {
			t.Errorf("workload %d was done %d times", i, w.done)
		}
		again += w.attempts - 1
	}
	t.Logf("%d workloads in %d pods, %d attempts ended early", u.total, len(u.created), again)
}

// made tells whether the users have created a pod.
func (u *users) made(uid types.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.created[uid] != ""
}
