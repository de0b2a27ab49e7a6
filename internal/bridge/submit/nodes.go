package submit

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// nodeView is the nodes of both sides, and what was found out about them. It is made
// again when they change: thousands of pods alike cost one look at each node.
type nodeView struct {
	*workload.Fleet
	// number tells one view from those before it.
	number uint64
	placement.Cluster
	softTaints bool

	mu    sync.Mutex
	found map[string]workload.Feasibility
}

// nodesChanged tells that the view of the nodes is old, and looks again at what waits.
func (s *Submitter) nodesChanged() {
	s.nodesMu.Lock()
	s.nodesOld = true
	s.nodesMu.Unlock()
	s.retryBlocked()
	s.retryQueued()
}

// nodes returns the view of the nodes as they are.
func (s *Submitter) nodes() (*nodeView, error) {
	s.nodesMu.Lock()
	defer s.nodesMu.Unlock()
	if s.nodesNow != nil && !s.nodesOld {
		return s.nodesNow, nil
	}
	list, err := s.Sources.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	facts := make([]workload.NodeFacts, 0, len(list))
	for _, n := range list {
		used, err := s.used(n.Name)
		if err != nil {
			return nil, err
		}
		facts = append(facts, workload.NodeFacts{Node: n, SlurmName: placement.SlurmName(n), Used: used})
	}
	slurmNodes := s.View.Nodes()
	v := &nodeView{
		Fleet: workload.NewFleet(facts, slurmNodes), found: map[string]workload.Feasibility{},
		Cluster: placement.Cluster{Names: placement.Names(list), Threads: make(map[string]int, len(slurmNodes))},
	}
	for i := range slurmNodes {
		v.Threads[slurmNodes[i].Name] = slurmNodes[i].Threads
	}
	if s.Devices != nil {
		v.Served = s.Devices.Served
	}
	v.softTaints = v.SoftTaints()
	if s.nodesNow != nil {
		v.number = s.nodesNow.number + 1
	}
	s.nodesNow, s.nodesOld = v, false
	return v, nil
}

// used sums up what pods that no job covers take of a node, such as daemons.
func (s *Submitter) used(node string) (corev1.ResourceList, error) {
	pods, err := s.Sources.Pods.Informer().GetIndexer().ByIndex(indexForeign, node)
	if err != nil {
		return nil, fmt.Errorf("list pods of node %s: %w", node, err)
	}
	used := corev1.ResourceList{}
	for _, obj := range pods {
		add(used, requestsOf(obj.(*corev1.Pod)))
	}
	return used, nil
}

// feasible returns which nodes suit all pods of a job by themselves.
func (v *nodeView) feasible(pods []*corev1.Pod, from workload.VolumeSource, partition string) workload.Feasibility {
	var out workload.Feasibility
	seen := map[string]bool{}
	for _, pod := range pods {
		volumes := workload.VolumesOf(pod, from)
		key := partition + "\x00" + volumes.Missing + "\x00" + workload.Shape(pod, volumes)
		if seen[key] {
			continue
		}
		f := v.once(key, func() workload.Feasibility { return v.Feasible(pod, volumes, partition) })
		if len(seen) == 0 {
			out = f
		} else {
			out = out.And(f)
		}
		seen[key] = true
	}
	return out
}

// shapes is how many answers a view keeps.
const shapes = 1000

func (v *nodeView) once(key string, find func() workload.Feasibility) workload.Feasibility {
	v.mu.Lock()
	f, ok := v.found[key]
	v.mu.Unlock()
	if ok {
		return f
	}
	f = find()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.found) >= shapes {
		clear(v.found)
	}
	v.found[key] = f
	return f
}

// others returns the pods that have a node, or are promised one, but for some.
func (s *Submitter) others(but []*corev1.Pod) (workload.Others, error) {
	o := workload.Others{Namespaces: map[string]map[string]string{}}
	namespaces, err := s.Sources.Namespaces.Lister().List(labels.Everything())
	if err != nil {
		return o, fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range namespaces {
		o.Namespaces[ns.Name] = ns.Labels
	}
	pods, err := s.Sources.Pods.Lister().List(labels.Everything())
	if err != nil {
		return o, fmt.Errorf("list pods: %w", err)
	}
	own := make(map[types.UID]bool, len(but))
	for _, pod := range but {
		own[pod.UID] = true
	}
	for _, pod := range pods {
		node := pod.Spec.NodeName
		if a, ok := s.Table.Get(pod.UID); node == "" && ok {
			node = a.Node
		}
		if node != "" && !own[pod.UID] && !workload.Terminal(pod) {
			o.Pods = append(o.Pods, workload.Placed{Pod: pod, Node: node})
		}
	}
	return o, nil
}

// storage reads what volumes are made of from informers.
type storage struct {
	claims  coreinformers.PersistentVolumeClaimInformer
	volumes coreinformers.PersistentVolumeInformer
	classes storageinformers.StorageClassInformer
}

func (s storage) Claim(namespace, name string) *corev1.PersistentVolumeClaim {
	c, err := s.claims.Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil // a lister's only error is that it isn't there
	}
	return c
}

func (s storage) Volume(name string) *corev1.PersistentVolume {
	v, err := s.volumes.Lister().Get(name)
	if err != nil {
		return nil
	}
	return v
}

func (s storage) Class(name string) *storagev1.StorageClass {
	c, err := s.classes.Lister().Get(name)
	if err != nil {
		return nil
	}
	return c
}
