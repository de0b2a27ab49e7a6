package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

const (
	// statusEvery is how often a kubelet writes its node's status when nothing
	// changes. It also renews a lease each 10 s, which nobody here watches.
	statusEvery = 5 * time.Minute
	kubeletWork = 16
	nodeCPUs    = 8
)

// nodeName returns the name of node i.
func nodeName(i int) string { return fmt.Sprintf("kwok-%04d", i) }

// makeNodes registers nodes as kubelets do, for the partitions that of gives.
func makeNodes(ctx context.Context, t *testing.T, k kubernetes.Interface, count int, of func(i int) string) {
	t.Helper()
	work := make(chan int)
	errs := make(chan error, kubeletWork)
	for range kubeletWork {
		go func() {
			var err error
			for i := range work {
				if err == nil {
					_, err = k.CoreV1().Nodes().Create(ctx, node(i, of(i)), metav1.CreateOptions{})
				}
			}
			errs <- err
		}()
	}
	for i := range count {
		work <- i
	}
	close(work)
	for range kubeletWork {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

func node(i int, partition string) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(nodeCPUs, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        nodeName(i),
			Labels:      map[string]string{v1beta1.LabelExternalNode: "", corev1.LabelHostname: nodeName(i)},
			Annotations: map[string]string{v1beta1.AnnotationExternalNodePartitions: partition},
		},
		Status: corev1.NodeStatus{
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: size, Capacity: size,
		},
	}
}

// kubelets start the pods that are bound and end those that are deleted, as the
// kubelets of all nodes would.
type kubelets struct {
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
}

func startKubelets(ctx context.Context, t *testing.T, client kubernetes.Interface, nodes int) {
	t.Helper()
	k := &kubelets{
		client: client,
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	k.pods = factory.Core().V1().Pods().Informer()
	add := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			k.queue.Add(key)
		}
	}
	if _, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced) {
		t.Fatal("the kubelets' pods can't be watched")
	}
	context.AfterFunc(ctx, k.queue.ShutDown)
	for range kubeletWork {
		go k.work(ctx)
	}
	go k.report(ctx, nodes)
}

func (k *kubelets) work(ctx context.Context) {
	for {
		key, stop := k.queue.Get()
		if stop {
			return
		}
		if err := k.sync(ctx, key); err != nil && ctx.Err() == nil {
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// sync brings one pod a step further.
func (k *kubelets) sync(ctx context.Context, key string) error {
	obj, ok, err := k.pods.GetStore().GetByKey(key)
	if err != nil || !ok {
		return err
	}
	pod := obj.(*corev1.Pod)
	switch {
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
		err = k.phase(ctx, pod, corev1.PodRunning)
	case pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded:
		err = k.phase(ctx, pod, corev1.PodSucceeded)
	case pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds > 0:
		err = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (k *kubelets) phase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{
			"phase": phase, "startTime": now, "podIP": "10.0.0.1", "hostIP": "127.0.0.1",
			"conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}},
		},
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// report writes the nodes' status, one after the other.
func (k *kubelets) report(ctx context.Context, nodes int) {
	tick := time.NewTicker(statusEvery / time.Duration(nodes))
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % nodes {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
			time.Now().UTC().Format(time.RFC3339))
		// The next heartbeat tells if this one didn't.
		_, _ = k.client.CoreV1().Nodes().Patch(ctx, nodeName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
}
