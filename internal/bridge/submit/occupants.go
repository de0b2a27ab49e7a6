package submit

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// occupants is what the bridge's pods have of the nodes at this moment: those that are bound,
// those that are about to be, and those whose job has a node on which they wait for room.
type occupants struct {
	mu    sync.Mutex
	nodes map[string]*onNode
	where map[types.UID]string
}

// onNode is the pods of one node, with their sums, nil where they are to be made.
type onNode struct {
	pods  map[types.UID]occupant
	sum   corev1.ResourceList
	cores int
}

type occupant struct {
	requests corev1.ResourceList
	cores    int
	// job and key are, of a pod that waits for room, its Slurm job and workload.
	job uint32
	key workload.Key
}

func newOccupants() *occupants {
	return &occupants{nodes: map[string]*onNode{}, where: map[types.UID]string{}}
}

// put notes what a pod has of a node.
func (o *occupants) put(pod *corev1.Pod, node string, now occupant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was := o.where[pod.UID]; was != "" && (was != node || o.nodes[was].pods[pod.UID].job != now.job) {
		o.remove(pod.UID)
	}
	if o.where[pod.UID] == node && o.nodes[node].pods[pod.UID].cores == now.cores {
		return // pods' requests don't change
	}
	now.requests = requestsOf(pod)
	n := o.nodes[node]
	if n == nil {
		n = &onNode{pods: map[types.UID]occupant{}}
		o.nodes[node] = n
	}
	n.pods[pod.UID], o.where[pod.UID] = now, node
	n.sum = nil
}

func (o *occupants) remove(uid types.UID) string {
	node := o.where[uid]
	if node == "" {
		return ""
	}
	n := o.nodes[node]
	delete(n.pods, uid)
	delete(o.where, uid)
	if n.sum = nil; len(n.pods) == 0 {
		delete(o.nodes, node)
	}
	return node
}

// left notes that a pod has nothing any more, and returns the workloads that wait for room where it was.
func (o *occupants) left(uid types.UID) []workload.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[o.remove(uid)]
	if n == nil {
		return nil
	}
	keys := map[workload.Key]bool{}
	for _, p := range n.pods {
		if p.job != 0 {
			keys[p.key] = true
		}
	}
	return slices.Collect(maps.Keys(keys))
}

// unplaced notes that a pod that isn't bound has no place, unless it waits for room.
func (o *occupants) unplaced(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if node := o.where[uid]; node != "" && o.nodes[node].pods[uid].job == 0 {
		o.remove(uid)
	}
}

// taken returns the sum of the requests of the pods on a node, and their cores. It is not to be changed.
func (o *occupants) taken(node string) (corev1.ResourceList, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[node]
	if n == nil {
		return nil, 0
	}
	if n.sum == nil {
		n.sum, n.cores = corev1.ResourceList{}, 0
		for _, p := range n.pods {
			add(n.sum, p.requests)
			n.cores += p.cores
		}
	}
	return n.sum, n.cores
}

// before returns the sum of the requests of pods on a node, but for some pods, and for those that wait there for
// room with a younger job: who came first goes first.
func (o *occupants) before(node string, but []*corev1.Pod, job uint32) corev1.ResourceList {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum := corev1.ResourceList{}
	if n := o.nodes[node]; n != nil {
		for uid, p := range n.pods {
			if p.job <= job && !slices.ContainsFunc(but, func(b *corev1.Pod) bool { return b.UID == uid }) {
				add(sum, p.requests)
			}
		}
	}
	return sum
}

// occupies keeps up with a pod of the bridge as the API server shows it.
func (s *Submitter) occupies(pod *corev1.Pod) {
	switch {
	case pod.Spec.NodeName == "":
	case workload.Terminal(pod):
		s.vacate(pod.UID)
	default:
		cores, _ := tres.ParseIndexes(pod.Annotations[v1beta1.AnnotationCores])
		s.occupants.put(pod, pod.Spec.NodeName, occupant{cores: len(cores)})
	}
}

// vacate notes that a pod has no node any more, and looks again at those that wait for the room.
func (s *Submitter) vacate(uid types.UID) {
	for _, key := range s.occupants.left(uid) {
		s.queue.Add(key)
	}
}

// now is what is taken of the nodes, for jobs that are to start at once.
func (s *Submitter) now(v *nodeView) *workload.Now {
	return &workload.Now{
		Taken: func(node string) corev1.ResourceList {
			sum, _ := s.occupants.taken(node)
			return sum
		},
		Most:   func(name string) (int, uint64, bool) { return s.idle(v, name, false) },
		Likely: func(name string) (int, uint64, bool) { return s.idle(v, name, true) },
	}
}

// idle is what Slurm has left of a node beside what the bridge's own pods have, and, as it was read last, beside other jobs.
func (s *Submitter) idle(v *nodeView, slurmName string, asRead bool) (cpus int, memory uint64, known bool) {
	n, ok := s.View.Node(slurmName)
	if !ok {
		return 0, 0, false
	}
	_, cores := s.occupants.taken(v.Names[slurmName])
	cpus = cmp.Or(n.EffectiveCPUs, n.CPUs)
	taken, kept := cores*max(n.Threads, 1), n.SpecializedMemory
	if asRead {
		if n.States.HasAny(slurm.NodeDown, slurm.NodeDrain, slurm.NodeFail, slurm.NodeMaintenance, slurm.NodeReserved, slurm.NodeNotResponding) {
			return 0, 0, true
		}
		taken, kept = max(taken, n.AllocCPUs), kept+n.AllocMemory
	}
	return cpus - taken, n.RealMemory - min(n.RealMemory, kept), true
}
