package workload

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSlots(t *testing.T) {
	large, small, gpu := Need{CPUs: 8, Memory: 1000}, Need{CPUs: 1, Memory: 1000}, Need{CPUs: 2, Memory: 100, GRES: map[string]int64{"gres/gpu": 1}}
	yes, no := func(Need) bool { return true }, func(Need) bool { return false }
	for name, c := range map[string]struct {
		needs            []Need
		threads, perNode int
		atLeast          int
		fits             func(Need) bool
		want             *Slots
	}{
		"all alike": {[]Need{small, small}, 1, 0, 0, no, &Slots{Task: small, Slot: []int{0, 1}, Needs: []Need{small}}},
		"whole cores": {[]Need{{CPUs: 3, Memory: 1}, {Memory: 1}}, 2, 0, 0, no, &Slots{
			Task: Need{CPUs: 4, Memory: 1}, Slot: []int{0, 1}, Needs: []Need{{CPUs: 3, Memory: 1}, {Memory: 1}}, Need: []int{0, 1}}},
		"small pods share a task of more memory": {[]Need{small, large, small, small}, 1, 0, 0, yes, &Slots{
			Task: Need{CPUs: 8, Memory: 3000}, Slot: []int{0, 1, 0, 0}, Needs: []Need{small, large}, Need: []int{0, 1, 0, 0}}},
		"but no task that no node holds": {[]Need{small, large, small, small}, 1, 0, 0, no, &Slots{
			Task: large, Slot: []int{0, 1, 2, 3}, Needs: []Need{small, large}, Need: []int{0, 1, 0, 0}}},
		"as many tasks as nodes": {[]Need{small, large, small, small}, 1, 0, 3, yes, &Slots{
			Task: large, Slot: []int{0, 1, 2, 3}, Needs: []Need{small, large}, Need: []int{0, 1, 0, 0}}},
		"two on a node": {[]Need{small, large, small}, 1, 2, 0, yes, &Slots{PerNode: 2,
			Task: large, Slot: []int{0, 1, 2}, Needs: []Need{small, large}, Need: []int{0, 1, 0}}},
		"devices": {[]Need{gpu, {CPUs: 2, Memory: 100}, gpu}, 1, 0, 0, no, &Slots{
			Task: gpu, Slot: []int{0, 1, 2}, Needs: []Need{gpu, {CPUs: 2, Memory: 100}}, Need: []int{0, 1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slotsOf(c.needs, c.threads, c.perNode, c.atLeast, c.fits)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever the pods are, all of a task's pods fit in it.
func TestSlotsSuffice(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		threads := 1 + r.IntN(2)
		var needs []Need
		for range 1 + r.IntN(30) {
			n := Need{CPUs: uint32(r.IntN(9)), Memory: 1 + uint64(r.IntN(4))*500}
			if r.IntN(3) == 0 {
				n.GRES = map[string]int64{"gres/gpu": int64(1 + r.IntN(2))}
			}
			needs = append(needs, n)
		}
		s := slotsOf(needs, threads, 0, 0, func(Need) bool { return r.IntN(2) == 0 })
		used := make([]Need, s.Tasks())
		for place, slot := range s.Slot {
			n := s.Of(place)
			if !n.Equal(needs[place]) {
				t.Fatalf("seed %d: place %d needs %+v, the slots say %+v", seed, place, needs[place], n)
			}
			n.CPUs = wholeCores(n.CPUs, threads)
			u := &used[slot]
			if u.GRES == nil {
				u.GRES = map[string]int64{}
			}
			if !room(*u, n, s.Task) {
				t.Fatalf("seed %d: task %d of %+v has no room for place %d beside %+v", seed, slot, s.Task, place, *u)
			}
			u.CPUs += n.CPUs
			u.Memory += n.Memory
			for name, count := range n.GRES {
				u.GRES[name] += count
			}
		}
	}
}
