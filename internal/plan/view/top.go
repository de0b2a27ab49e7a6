package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Owner is who uses the cluster: a namespace of Kubernetes, or a user of Slurm.
type Owner struct {
	// World is "Kubernetes" for a namespace, "Slurm" for a user.
	World string `json:"world"`
	Name  string `json:"name"`
	// Running and Waiting count lines of the queue.
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
	Has     Amounts `json:"has"`
	Asks    Amounts `json:"asks"`
}

// Top returns who has the most, and of those who have nothing, who asks for the most.
func (m *Model) Top() []Owner {
	by := map[[2]string]*Owner{}
	for _, i := range m.Queue(false) {
		key := [2]string{"Slurm", cmp.Or(i.User, "?")}
		if len(i.Pods) > 0 {
			namespace, _, _ := strings.Cut(i.Pods[0], "/")
			key = [2]string{"Kubernetes", namespace}
		}
		o := by[key]
		if o == nil {
			o = &Owner{World: key[0], Name: key[1]}
			by[key] = o
		}
		if i.Nodes != "" {
			o.Running += max(1, i.Jobs)
			o.Has.Add(i.Amounts)
		} else {
			o.Waiting += max(1, i.Jobs)
			o.Asks.Add(i.Amounts)
		}
	}
	var out []Owner
	for _, key := range slices.SortedFunc(maps.Keys(by), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		out = append(out, *by[key])
	}
	slices.SortStableFunc(out, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(b.Has.CPUs, a.Has.CPUs), cmp.Compare(b.Has.GPUs, a.Has.GPUs), cmp.Compare(b.Asks.CPUs, a.Asks.CPUs))
	})
	return out
}
