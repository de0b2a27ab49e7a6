package submit

import (
	"context"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Sources are the informers that the submitter reads.
type Sources struct {
	Pods  coreinformers.PodInformer
	Nodes coreinformers.NodeInformer
	Jobs  batchinformers.JobInformer
	// PodGroups and Workloads are nil where the API server doesn't serve them.
	PodGroups schedulinginformers.PodGroupInformer
	Workloads schedulinginformers.WorkloadInformer
	// Owners reads the metadata of owners that are not Jobs.
	Owners Owners
}

// Owners reads owners of pods.
type Owners interface {
	// Owner returns the owner's metadata, false where it is gone or can't be read.
	Owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.ObjectMeta, bool, error)
}

func (s Sources) synced() []cache.InformerSynced {
	out := []cache.InformerSynced{
		s.Pods.Informer().HasSynced, s.Nodes.Informer().HasSynced, s.Jobs.Informer().HasSynced,
	}
	if s.PodGroups != nil {
		out = append(out, s.PodGroups.Informer().HasSynced, s.Workloads.Informer().HasSynced)
	}
	return out
}

const (
	indexWorkload = "slinky-workload"
	// indexForeign finds the pods on a node that the bridge didn't place.
	indexForeign = "slinky-foreign-pods-by-node"
)

func (s *Submitter) ours(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == s.SchedulerName }

// watch adds the indexes and event handlers to the informers.
func (s *Submitter) watch() error {
	err := s.Sources.Pods.Informer().AddIndexers(cache.Indexers{
		indexWorkload: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) {
				return []string{indexKey(workload.KeyOf(pod))}, nil
			}
			return nil, nil
		},
		indexForeign: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && !s.ours(pod) && pod.Spec.NodeName != "" {
				return []string{pod.Spec.NodeName}, nil
			}
			return nil, nil
		},
	})
	if err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{s.Sources.Pods.Informer(), s.podHandler()},
		{s.Sources.Nodes.Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.retryBlocked() },
			UpdateFunc: s.nodeChanged,
		}},
	}
	if s.Sources.PodGroups != nil {
		handlers = append(handlers, struct {
			informer cache.SharedIndexInformer
			handler  cache.ResourceEventHandler
		}{s.Sources.PodGroups.Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { s.enqueueGroup(obj) },
			UpdateFunc: func(_, obj any) { s.enqueueGroup(obj) },
		}})
	}
	for _, h := range handlers {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return fmt.Errorf("watch for the submitter: %w", err)
		}
	}
	return nil
}

func (s *Submitter) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.podChanged(obj) },
		UpdateFunc: func(_, obj any) { s.podChanged(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) {
				s.forget(pod.UID)
				s.queue.Add(workload.KeyOf(pod))
			}
		},
	}
}

func (s *Submitter) podChanged(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !s.ours(pod) {
		return
	}
	key := workload.KeyOf(pod)
	if key.Kind == workload.KindPod && pod.Spec.NodeName != "" {
		return
	}
	s.queue.Add(key)
}

func (s *Submitter) enqueueGroup(obj any) {
	if g, ok := obj.(*schedulingv1beta1.PodGroup); ok {
		s.queue.Add(workload.Key{Kind: workload.KindPodGroup, Namespace: g.Namespace, Name: g.Name})
	}
}

func (s *Submitter) nodeChanged(before, now any) {
	b, ok1 := before.(*corev1.Node)
	n, ok2 := now.(*corev1.Node)
	if ok1 && ok2 && maps.Equal(b.Labels, n.Labels) && len(b.Spec.Taints) == len(n.Spec.Taints) &&
		maps.EqualFunc(b.Status.Allocatable, n.Status.Allocatable, resourceEqual) {
		return
	}
	s.retryBlocked()
}

func indexKey(k workload.Key) string {
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name + "/" + string(k.UID)
}

// observe collects what is known about a workload.
func (s *Submitter) observe(ctx context.Context, key workload.Key) (workload.Observed, error) {
	o := workload.Observed{Cluster: s.Index.Cluster()}
	objs, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexWorkload, indexKey(key))
	if err != nil {
		return o, fmt.Errorf("find pods of %s: %w", key, err)
	}
	ids := make([]types.UID, 0, len(objs)+1)
	for _, obj := range objs {
		pod := obj.(*corev1.Pod)
		o.Pods = append(o.Pods, pod)
		ids = append(ids, pod.UID)
	}
	if len(o.Pods) == 0 {
		return o, nil
	}
	workload.ByRank(o.Pods)
	if o.Group, err = s.group(ctx, key, o.Pods[0]); err != nil {
		return o, err
	}
	o.Jobs = s.Index.Naming(append(ids, o.Group.UID)...)
	return o, nil
}

// group reads what the owners say. A PodGroup that isn't there has no UID.
func (s *Submitter) group(ctx context.Context, key workload.Key, pod *corev1.Pod) (workload.Group, error) {
	owner, err := s.owner(ctx, pod)
	if err != nil {
		return workload.Group{}, err
	}
	if key.Kind == workload.KindPod {
		return workload.OfPod(pod, owner), nil
	}
	if s.Sources.PodGroups == nil {
		return workload.Group{Key: key}, nil
	}
	pg, err := s.Sources.PodGroups.Lister().PodGroups(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return workload.Group{Key: key}, nil
	}
	if err != nil {
		return workload.Group{}, fmt.Errorf("read PodGroup %s/%s: %w", key.Namespace, key.Name, err)
	}
	var w *schedulingv1beta1.Workload
	if ref := pg.Spec.WorkloadRef; ref != nil {
		w, err = s.Sources.Workloads.Lister().Workloads(key.Namespace).Get(ref.WorkloadName)
		if err != nil && !apierrors.IsNotFound(err) {
			return workload.Group{}, fmt.Errorf("read Workload %s/%s: %w", key.Namespace, ref.WorkloadName, err)
		}
	}
	return workload.OfPodGroup(pg, owner, w), nil
}

// owner walks up from a pod to the object that stands for its workload: its Job,
// or else the highest controller that can be read.
func (s *Submitter) owner(ctx context.Context, pod *corev1.Pod) (*workload.Owner, error) {
	ref := metav1.GetControllerOf(pod)
	var found *workload.Owner
	for range 32 {
		if ref == nil {
			break
		}
		if ref.Kind == "Job" && ref.APIVersion == batchv1.SchemeGroupVersion.String() {
			job, err := s.Sources.Jobs.Lister().Jobs(pod.Namespace).Get(ref.Name)
			if err == nil && job.UID == ref.UID {
				return workload.OwnerOfJob(job), nil
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("read Job %s/%s: %w", pod.Namespace, ref.Name, err)
			}
			break
		}
		meta, ok, err := s.Sources.Owners.Owner(ctx, pod.Namespace, *ref)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		found = &workload.Owner{Name: meta.Name, Annotations: meta.Annotations}
		ref = metav1.GetControllerOf(&meta)
	}
	return found, nil
}

// nodes returns all Kubernetes nodes with what others than Slurm's jobs take of them.
func (s *Submitter) nodes() ([]workload.NodeFacts, map[string]string, error) {
	list, err := s.Sources.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	facts := make([]workload.NodeFacts, 0, len(list))
	for _, n := range list {
		pods, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexForeign, n.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("list pods of node %s: %w", n.Name, err)
		}
		used := corev1.ResourceList{}
		for _, obj := range pods {
			for name, q := range resource.PodRequests(obj.(*corev1.Pod), resource.PodResourcesOptions{}) {
				sum := used[name]
				sum.Add(q)
				used[name] = sum
			}
		}
		facts = append(facts, workload.NodeFacts{Node: n, SlurmName: placement.SlurmName(n), Used: used})
	}
	return facts, placement.Names(list), nil
}

func resourceEqual(a, b apiresource.Quantity) bool { return a.Cmp(b) == 0 }
