package main

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// gangsContend: two gangs of two nodes each, and a pod of one, ask for three nodes at one instant. The order in which their
// pods are bound shows that a gang is never there by half, and their jobs that none was ever started for half of one.
func (w *world) gangsContend(t *testing.T) {
	whole := func(*corev1.Pod) {}
	sharing := all(shared, cpus("3"))
	for _, c := range []struct {
		name        string
		annotations []string
		shape       func(*corev1.Pod)
		single      bool
	}{
		{"whole", nil, whole, false},
		{"between", nil, whole, true},
		{"shared", []string{v1beta1.AnnotationExclusive, "false"}, sharing, false},
		{"sharing", []string{v1beta1.AnnotationExclusive, "false"}, sharing, true},
	} {
		t.Run(c.name, func(t *testing.T) { w.contend(t, c.name, c.annotations, c.shape, c.single); w.empty(t) })
	}
}

func (w *world) contend(t *testing.T, name string, annotations []string, shape func(*corev1.Pod), single bool) {
	bound := w.bindings(t)
	var pods []*corev1.Pod
	for _, g := range []string{name + "-a", name + "-b"} {
		w.gang(t, g, 2, annotations...)
		pods = append(pods, newPod(g+"-0", all(shape, member(g))), newPod(g+"-1", all(shape, member(g))))
	}
	// The single one comes between the two gangs.
	if single {
		pods = slices.Insert(pods, 2, newPod(name+"-single", shape))
	}
	w.atOnce(t, pods)
	runs := strings.TrimSuffix(w.oneOf(t, name+"-a-0", name+"-b-0"), "-0")
	waits := map[string]string{name + "-a": name + "-b", name + "-b": name + "-a"}[runs]
	w.bound(t, runs+"-1")
	w.held(t, waits+"-0", "QueuedInSlurm")
	w.held(t, waits+"-1", "QueuedInSlurm")
	w.kubelet(t, runs+"-0", corev1.PodSucceeded)
	w.kubelet(t, runs+"-1", corev1.PodSucceeded)
	w.bound(t, waits+"-0")
	w.bound(t, waits+"-1")
	if single {
		w.bound(t, name+"-single")
	}
	var order []string
	for _, pod := range bound(len(pods)) {
		if pod != name+"-single" {
			order = append(order, pod[:len(name)+2])
		}
	}
	if !slices.Equal(order, []string{runs, runs, waits, waits}) {
		t.Errorf("the pods were bound in the order of %v", order)
	}
	jobs, err := w.slurm.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		for _, g := range []string{runs, waits} {
			if first, second := strings.Contains(j.AdminComment, g+"-0"), strings.Contains(j.AdminComment, g+"-1"); j.Nodes != "" && first != second {
				t.Errorf("job %d was started for half of gang %s: %s", j.ID, g, j.AdminComment)
			}
		}
	}
}

// atOnce creates pods at one instant.
func (w *world) atOnce(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	errs := make([]error, len(pods))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() {
			<-start
			_, errs[i] = w.kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		})
	}
	close(start)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// bindings watches pods, and returns what gives the names of as many as are bound by then, in their order.
func (w *world) bindings(t *testing.T) func(n int) []string {
	t.Helper()
	list, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := w.kube.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pods.Stop)
	return func(n int) []string {
		t.Helper()
		var order []string
		late := time.After(w.patience)
		for len(order) < n {
			var e watch.Event
			select {
			case e = <-pods.ResultChan():
			case <-late:
				t.Fatalf("the watch showed the bindings of %v alone", order)
			}
			if pod, is := e.Object.(*corev1.Pod); is && pod.Spec.NodeName != "" && !slices.Contains(order, pod.Name) {
				order = append(order, pod.Name)
			}
		}
		return order
	}
}
