package submit

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
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
	// Custom reads the kinds that the API server may not have.
	Custom *Custom
	// Owners reads the metadata of owners that are not Jobs.
	Owners Owners
}

// Owners reads owners of pods.
type Owners interface {
	// Owner returns the owner's metadata, or why it can't be read, as "is gone".
	Owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (meta metav1.ObjectMeta, why string, err error)
}

func (s Sources) synced() []cache.InformerSynced {
	return []cache.InformerSynced{
		s.Pods.Informer().HasSynced, s.Nodes.Informer().HasSynced, s.Jobs.Informer().HasSynced,
	}
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
				return []string{indexKey(s.Kinds.KeyOf(pod))}, nil
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
	if c := s.Sources.Custom; c != nil {
		c.podGroups.changed = func(obj any) { s.enqueueGroup(workload.KindPodGroup, obj) }
		c.coscheduling.changed = func(obj any) { s.enqueueGroup(workload.KindCoscheduling, obj) }
		c.podGroups.arrived = func() { s.enqueueKind(workload.KindPodGroup) }
		c.coscheduling.arrived = func() { s.enqueueKind(workload.KindCoscheduling) }
		c.sets.arrived = func() { s.enqueueKind(workload.KindLeaderWorkerSet) }
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
				s.queue.Add(s.Kinds.KeyOf(pod))
			}
		},
	}
}

func (s *Submitter) podChanged(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !s.ours(pod) {
		return
	}
	key := s.Kinds.KeyOf(pod)
	if key.Kind == workload.KindPod && pod.Spec.NodeName != "" {
		return
	}
	s.queue.Add(key)
}

func (s *Submitter) enqueueGroup(kind workload.Kind, obj any) {
	if g, err := meta.Accessor(obj); err == nil {
		s.queue.Add(workload.Key{Kind: kind, Namespace: g.GetNamespace(), Name: g.GetName()})
	}
}

// enqueueKind looks again at all workloads of a kind.
func (s *Submitter) enqueueKind(kind workload.Kind) {
	for _, obj := range s.Sources.Pods.Informer().GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) {
			if key := s.Kinds.KeyOf(pod); key.Kind == kind {
				s.queue.Add(key)
			}
		}
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
