package submit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// Sources are the informers that the submitter reads.
type Sources struct {
	Pods  coreinformers.PodInformer
	Nodes coreinformers.NodeInformer
	Jobs  batchinformers.JobInformer
	// Namespaces, Claims, Volumes and Classes tell where pods may run beside others, and near their volumes.
	Namespaces coreinformers.NamespaceInformer
	Claims     coreinformers.PersistentVolumeClaimInformer
	Volumes    coreinformers.PersistentVolumeInformer
	Classes    storageinformers.StorageClassInformer
	// Devices are the ResourceClaims, ResourceSlices and DeviceClasses; nil where pods get no devices.
	Devices resourceinformers.Interface
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
	out := []cache.InformerSynced{
		s.Pods.Informer().HasSynced, s.Nodes.Informer().HasSynced, s.Jobs.Informer().HasSynced,
		s.Namespaces.Informer().HasSynced, s.Claims.Informer().HasSynced, s.Volumes.Informer().HasSynced, s.Classes.Informer().HasSynced,
	}
	if d := s.Devices; d != nil {
		out = append(out, d.ResourceClaims().Informer().HasSynced, d.ResourceSlices().Informer().HasSynced, d.DeviceClasses().Informer().HasSynced)
	}
	return out
}

const (
	indexWorkload = "slinky-workload"
	// indexSpeaker finds the pods without a node whose job a Job or a LeaderWorkerSet speaks for.
	indexSpeaker = "slinky-pods-by-speaker"
	// indexForeign finds the pods on a node that the bridge didn't place.
	indexForeign = "slinky-foreign-pods-by-node"
	// indexClaims finds the pods without a node by the ResourceClaims that they name.
	indexClaims = "slinky-pods-by-claim"
	// indexAverse finds the pods that keep others away.
	indexAverse = "slinky-averse"
)

func (s *Submitter) ours(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == s.SchedulerName }

// foreign tells whether a pod takes something of a node that no job covers.
func (s *Submitter) foreign(pod *corev1.Pod) bool {
	return !s.ours(pod) && pod.Spec.NodeName != "" && !workload.Terminal(pod)
}

// watch adds the indexes and event handlers to the informers.
func (s *Submitter) watch() error {
	if err := s.indexPods(); err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	handlers := []watched{
		{s.Sources.Pods.Informer(), s.podHandler()},
		{s.Sources.Jobs.Informer(), cache.ResourceEventHandlerFuncs{UpdateFunc: s.jobOwnerChanged}},
		{s.Sources.Nodes.Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.nodesChanged() },
			UpdateFunc: s.nodeChanged,
			DeleteFunc: func(any) { s.nodesChanged() },
		}},
		{s.Sources.Claims.Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.retryBlocked() },
			UpdateFunc: s.claimChanged,
		}},
	}
	if d := s.Sources.Devices; d != nil {
		handlers = append(handlers, s.deviceHandlers(d)...)
	}
	if c := s.Sources.Custom; c != nil {
		c.podGroups.changed = func(_, now any) { s.enqueueGroup(workload.KindPodGroup, now) }
		c.coscheduling.changed = func(_, now any) { s.enqueueGroup(workload.KindCoscheduling, now) }
		c.sets.changed = s.setChanged
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

// indexPods adds the ways by which pods are found.
func (s *Submitter) indexPods() error {
	return s.Sources.Pods.Informer().AddIndexers(cache.Indexers{
		indexWorkload: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) {
				return []string{indexKey(s.Kinds.KeyOf(pod))}, nil
			}
			return nil, nil
		},
		indexSpeaker: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && s.ours(pod) && pod.Spec.NodeName == "" {
				return speakers(pod), nil
			}
			return nil, nil
		},
		indexPlaced: s.placedOn,
		indexClaims: s.claimsOf,
		indexForeign: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && s.foreign(pod) {
				return []string{pod.Spec.NodeName}, nil
			}
			return nil, nil
		},
		indexAverse: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && workload.Averse(pod) && !workload.Terminal(pod) {
				return []string{""}, nil
			}
			return nil, nil
		},
	})
}

// watched is an informer with who has its events.
type watched struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

func (s *Submitter) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.podChanged(nil, obj) },
		UpdateFunc: func(before, obj any) { s.podChanged(before, obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			pod, ok := obj.(*corev1.Pod)
			switch {
			case ok && s.ours(pod):
				s.vacate(pod.UID)
				s.forget(pod.UID)
				s.queue.Add(s.Kinds.KeyOf(pod))
			case ok && s.foreign(pod):
				s.nodesChanged()
			}
		},
	}
}

func (s *Submitter) podChanged(before, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if !s.ours(pod) {
		if was, ok := before.(*corev1.Pod); s.foreign(pod) != (ok && s.foreign(was)) {
			s.nodesChanged()
		}
		return
	}
	s.occupies(pod)
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

// speakers returns the index keys of the Job that controls a pod and of the LeaderWorkerSet that it names.
func speakers(pod *corev1.Pod) []string {
	var out []string
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "Job" {
		out = append(out, string(ref.UID))
	}
	if set := workload.LeaderWorkerSetName(pod); set != "" {
		out = append(out, pod.Namespace+"/"+set)
	}
	return out
}

// jobOwnerChanged looks again at the pods of a Job that says something else about their Slurm jobs.
func (s *Submitter) jobOwnerChanged(before, now any) {
	b, ok1 := before.(*batchv1.Job)
	n, ok2 := now.(*batchv1.Job)
	if ok1 && ok2 && (!maps.Equal(b.Annotations, n.Annotations) || !ptrEqual(b.Spec.ActiveDeadlineSeconds, n.Spec.ActiveDeadlineSeconds)) {
		s.enqueueSpokenFor(string(n.UID))
	}
}

// setChanged does so for a LeaderWorkerSet, also where it is new.
func (s *Submitter) setChanged(before, now any) {
	b, _ := before.(*workload.LeaderWorkerSet)
	n, ok := now.(*workload.LeaderWorkerSet)
	if ok && (b == nil || b.UID != n.UID || b.Size != n.Size || !maps.Equal(b.Annotations, n.Annotations)) {
		s.enqueueSpokenFor(n.Namespace + "/" + n.Name)
	}
}

func (s *Submitter) enqueueSpokenFor(speaker string) {
	pods, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexSpeaker, speaker)
	if err != nil {
		return // the index is there from the beginning on
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			s.queue.Add(s.Kinds.KeyOf(pod))
		}
	}
}

func ptrEqual[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

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
	if ok1 && ok2 && maps.Equal(b.Labels, n.Labels) && slices.EqualFunc(b.Spec.Taints, n.Spec.Taints, taintEqual) &&
		maps.EqualFunc(b.Status.Allocatable, n.Status.Allocatable, resourceEqual) {
		return
	}
	s.nodesChanged()
}

func (s *Submitter) claimChanged(before, now any) {
	b, ok1 := before.(*corev1.PersistentVolumeClaim)
	c, ok2 := now.(*corev1.PersistentVolumeClaim)
	if ok1 && ok2 && b.Spec.VolumeName != c.Spec.VolumeName {
		s.retryBlocked()
	}
}

func taintEqual(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }

func indexKey(k workload.Key) string {
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name + "/" + string(k.UID)
}

func resourceEqual(a, b apiresource.Quantity) bool { return a.Cmp(b) == 0 }
