package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/placement"
)

// Allocation is what Slurm granted one pod.
type Allocation struct {
	placement.Grant
	// JobID and SLUID are the Slurm job's: the first for people, the second for ever.
	JobID uint32
	SLUID string
}

// Equal tells whether two allocations are the same.
func (a Allocation) Equal(b Allocation) bool {
	return a.JobID == b.JobID && a.SLUID == b.SLUID && a.Grant.Equal(b.Grant)
}

// Table holds the allocations of pods that wait to be bound. The submitter
// writes it and the plugin reads it: it is all that the plugin knows of Slurm.
type Table struct {
	mu      sync.RWMutex
	pods    map[types.UID]entry
	refused chan Refusal
}

// Refusal is a pod that Kubernetes' own filters keep off the node that Slurm gave it.
type Refusal struct {
	Pod *corev1.Pod
	// Node is the Kubernetes node, Why what the filters say.
	Node, Why string
}

// refusals is how many refusals wait to be read. What is too much is left out: each attempt to
// schedule the pod tells of it again.
const refusals = 1024

type entry struct {
	allocation Allocation
	ok         bool
	// wait is why there is no allocation yet.
	wait string
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{pods: map[types.UID]entry{}, refused: make(chan Refusal, refusals)}
}

// Refused are pods that can't use the node that Slurm gave them, for who can ask Slurm for another.
func (t *Table) Refused() <-chan Refusal { return t.refused }

func (t *Table) refuse(r Refusal) {
	select {
	case t.refused <- r:
	default:
	}
}

// Put records a pod's allocation.
func (t *Table) Put(pod types.UID, a Allocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods[pod] = entry{allocation: a, ok: true}
}

// Hold records why a pod has no allocation, and forgets one that it had.
func (t *Table) Hold(pod types.UID, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods[pod] = entry{wait: why}
}

// Delete forgets a pod.
func (t *Table) Delete(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, pod)
}

// Get returns a pod's allocation.
func (t *Table) Get(pod types.UID) (Allocation, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.pods[pod]
	return e.allocation, e.ok
}

// Why returns why a pod has no allocation.
func (t *Table) Why(pod types.UID) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.pods[pod]
	switch {
	case e.ok:
		return ""
	case ok && e.wait != "":
		return e.wait
	}
	return "no Slurm job covers the pod yet"
}

// Len returns how many pods have an allocation.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, e := range t.pods {
		if e.ok {
			n++
		}
	}
	return n
}
