package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// RunLabel marks the pods of one run.
const RunLabel = "bench"

// Kube is the API server, as an administrator.
type Kube struct {
	Config  *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
}

// Connect returns clients without limits of their own: the yardstick must not be the brake.
func Connect(c *rest.Config) (*Kube, error) {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, -1
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	typed := rest.CopyConfig(c)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	k, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &Kube{Config: c, Client: k, Dynamic: d}, nil
}

// Load says which pods to create, and how.
type Load struct {
	Namespace, Scheduler string
	// Run is the value of RunLabel.
	Run string
	// CPU and Memory are requests and limits; Extra are more of them.
	CPU, Memory string
	Extra       map[string]string

	Labels, Annotations, NodeSelector map[string]string
	PriorityClass, Image              string
	// TolerateAll tolerates every taint.
	TolerateAll bool
	// GraceSeconds is how long pods may take to end.
	GraceSeconds int64
	// Workers create at once, at Rate per second; 0 for as fast as they can.
	Workers int
	Rate    float64
}

// Pod returns one pod of the load.
func (l Load) Pod(name string, labels map[string]string) (*corev1.Pod, error) {
	all := map[string]string{string(corev1.ResourceCPU): l.CPU, string(corev1.ResourceMemory): l.Memory}
	maps.Copy(all, l.Extra)
	list := corev1.ResourceList{}
	for resourceName, value := range all {
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("%s of a pod is %q: %w", resourceName, value, err)
		}
		list[corev1.ResourceName(resourceName)] = q
	}
	marked := map[string]string{RunLabel: l.Run}
	maps.Copy(marked, l.Labels)
	maps.Copy(marked, labels)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.Namespace, Labels: marked, Annotations: maps.Clone(l.Annotations)},
		Spec: corev1.PodSpec{
			SchedulerName: l.Scheduler, RestartPolicy: corev1.RestartPolicyNever, NodeSelector: l.NodeSelector,
			PriorityClassName: l.PriorityClass, TerminationGracePeriodSeconds: &l.GraceSeconds, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "c", Image: l.Image, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
	if l.TolerateAll {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return p, nil
}

// Pods returns count pods, named after the run.
func (l Load) Pods(count int) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		var err error
		if pods[i], err = l.Pod(fmt.Sprintf("%s-%d", l.Run, i), nil); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// Create creates pods and returns how many weren't, with what the first failures said.
func (k *Kube) Create(ctx context.Context, t *Tracker, l Load, pods []*corev1.Pod) (failed int, err error) {
	var mu sync.Mutex
	var errs []error
	work := make(chan *corev1.Pod)
	var wg sync.WaitGroup
	for range max(l.Workers, 1) {
		wg.Go(func() {
			for p := range work {
				t.creating(p.Name)
				if _, err := k.Client.CoreV1().Pods(l.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
					mu.Lock()
					if failed++; len(errs) < 3 {
						errs = append(errs, fmt.Errorf("create pod %s: %w", p.Name, err))
					}
					mu.Unlock()
				}
			}
		})
	}
	pace := newPace(l.Rate)
	for _, p := range pods {
		pace.wait(ctx)
		work <- p
	}
	close(work)
	wg.Wait()
	return failed, errors.Join(errs...)
}

// Delete asks for the deletion of pods by name, and remembers when.
func (k *Kube) Delete(ctx context.Context, t *Tracker, l Load, names []string) error {
	var mu sync.Mutex
	var errs []error
	work := make(chan string)
	var wg sync.WaitGroup
	for range max(l.Workers, 1) {
		wg.Go(func() {
			for name := range work {
				t.asked(name)
				err := k.Client.CoreV1().Pods(l.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &l.GraceSeconds})
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// DeleteAll deletes the pods of a run and waits until they are gone.
func (k *Kube) DeleteAll(ctx context.Context, t *Tracker, l Load) error {
	err := k.Client.CoreV1().Pods(l.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &l.GraceSeconds},
		metav1.ListOptions{LabelSelector: RunLabel + "=" + l.Run})
	if err != nil {
		return fmt.Errorf("delete the pods of run %s: %w", l.Run, err)
	}
	return t.Wait(ctx, "the pods are gone", func(s *Seen) bool { return s.Gone >= s.Known() })
}

// pace lets things happen at a rate.
type pace struct {
	start time.Time
	every time.Duration
	n     int
}

func newPace(rate float64) *pace {
	p := &pace{start: time.Now()}
	if rate > 0 {
		p.every = time.Duration(float64(time.Second) / rate)
	}
	return p
}

func (p *pace) wait(ctx context.Context) {
	until := time.Until(p.start.Add(time.Duration(p.n) * p.every))
	p.n++
	if until <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(until):
	}
}
