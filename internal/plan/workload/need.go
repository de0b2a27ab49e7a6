package workload

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Need is what one pod takes of its node.
type Need struct {
	// CPUs are hardware threads, as Slurm counts them.
	CPUs uint32 `json:"cpus,omitempty"`
	// Memory is in MiB.
	Memory uint64 `json:"memory,omitempty"`
	// GRES counts generic resources by their name in a TRES expression, as
	// "gres/gpu" or "gres/gpu:h100".
	GRES map[string]int64 `json:"gres,omitempty"`
}

// Equal tells whether two pods need the same.
func (n Need) Equal(m Need) bool {
	return n.CPUs == m.CPUs && n.Memory == m.Memory && maps.Equal(n.GRES, m.GRES)
}

// Slots tells how the pods of a job that shares nodes among its pods fit into the
// job's tasks. A task is on one node; pod i is in task Slot[i].
type Slots struct {
	// Task is what each task has.
	Task Need `json:"task"`
	// Slot is the task of each pod, in the order of the mark's pods.
	Slot []int `json:"slot"`
	// PerNode is the most pods that may be on one node, 0 for any number.
	PerNode int `json:"perNode,omitempty"`
	// Needs are the different needs of the pods, and Need the index into it of each
	// pod; no Need means that all pods have the first.
	Needs []Need `json:"needs"`
	Need  []int  `json:"need,omitempty"`
}

// Of returns what the pod at a place of the job needs.
func (s *Slots) Of(place int) Need {
	if place < len(s.Need) {
		return s.Needs[s.Need[place]]
	}
	return s.Needs[0]
}

// Tasks returns the number of tasks.
func (s *Slots) Tasks() int {
	n := 0
	for _, slot := range s.Slot {
		n = max(n, slot+1)
	}
	return n
}

// valid tells whether slots that were read back describe a job of some pods.
func (s *Slots) valid(pods []types.UID) bool {
	if len(s.Slot) != len(pods) || len(s.Needs) == 0 || len(s.Need) != 0 && len(s.Need) != len(pods) {
		return false
	}
	for i, slot := range s.Slot {
		if slot < 0 || slot >= len(pods) || len(s.Need) > 0 && (s.Need[i] < 0 || s.Need[i] >= len(s.Needs)) {
			return false
		}
	}
	return true
}
