package cpuset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// What the published driver chooses on regular machines. Users see the same CPUs
// after they have moved to this one.
// CPU checks 1 and 3.
func TestPickAsPublished(t *testing.T) {
	machines := map[string]Topology{}
	for _, s := range shapes() {
		if name, _, ok := strings.Cut(s.name, ":"); ok {
			machines[name] = s.build()
		}
	}
	for _, c := range []struct {
		machine, free string
		n             int
		want          string
	}{
		{"A", "0-15", 1, "0"},
		{"A", "0-15", 2, "0,8"},
		{"A", "0-15", 3, "0-1,8"},
		{"A", "0-15", 5, "0-2,8-9"},
		{"A", "0-15", 15, "0-14"},
		{"A", "1-15", 1, "8"},
		{"A", "1-15", 2, "1,9"},
		{"A", "1-15", 3, "1,8-9"},
		{"A", "1,3,5-7,9,13-15", 3, "1,3,9"},
		{"A", "1,3,5-7,9,13-15", 4, "1,5,9,13"},
		{"B", "0-31", 8, "0-3,16-19"},
		{"B", "0-31", 10, "0-4,16-20"},
		{"B", "0-31", 17, "0-8,16-23"},
		{"B", "2-15,18-31", 4, "2-3,18-19"},
		{"B", "2-15,18-31", 6, "4-6,20-22"},
		{"B", "2-15,18-31", 10, "2,4-7,18,20-23"},
		{"C", "16-31,48-63", 8, "16-19,48-51"},
		{"C", "16-31,48-63", 32, "16-31,48-63"},
		{"C", "0-63", 40, "0-19,32-51"},
		// The published driver confuses cores of two sockets here, since their core ids repeat.
		{"C", "19,23,27,31,48-63", 2, "19,51"},
		{"C", "19,23,27,31,48-63", 7, "19,23,27,48,51,55,59"},
		{"C", "19,23,27,31,48-63", 8, "19,23,27,31,51,55,59,63"},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.machine, c.free, c.n), func(t *testing.T) {
			got, err := Pick(machines[c.machine], mustParse(t, c.free), c.n)
			if err != nil || got.String() != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// A core is whole by its own threads: 0 and 1 are one core, 4 and 5 are two.
// CPU check 2.
func TestPickOnHybrid(t *testing.T) {
	for free, want := range map[string]string{"1-7": "4-5", "0-7": "0-1", "4-7": "4-5"} {
		got, err := Pick(hybrid(), mustParse(t, free), 2)
		if err != nil || got.String() != want {
			t.Errorf("2 of %s: got %s, %v; want %s", free, got, err, want)
		}
	}
}

func TestPickRefuses(t *testing.T) {
	top := shapes()[2].build()
	for _, c := range []struct {
		free string
		n    int
	}{{"0-3", 5}, {"", 1}, {"0-3", 0}, {"0-3", -1}, {"16-99", 1}} {
		if got, err := Pick(top, mustParse(t, c.free), c.n); err == nil {
			t.Errorf("%d of %q: got %s, want an error", c.n, c.free, got)
		}
	}
}

// Whatever is free: as many as asked for, of the free ones, the same each time; and
// where all free CPUs are whole cores, an even number is whole cores.
// CPU checks 1 and 3.
func TestPickInvariants(t *testing.T) {
	tops := map[string]Topology{"hybrid": hybrid()}
	for _, s := range shapes() {
		tops[s.name] = s.build()
	}
	for name, top := range tops {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(top.CPUs))))
			for range 60 {
				checkPick(t, top, randomSubset(r, top), r)
				cores := wholeCores(r, top)
				checkPick(t, top, cores, r)
				checkWhole(t, top, cores, r)
			}
		})
	}
}

func checkPick(t *testing.T, top Topology, free Set, r *rand.Rand) {
	t.Helper()
	if free.Empty() {
		return
	}
	n := 1 + r.IntN(free.Len())
	got, err := Pick(top, free, n)
	if err != nil || got.Len() != n || !got.Within(free) {
		t.Fatalf("%d of %s: got %s, %v", n, free, got, err)
	}
	if again, _ := Pick(top, free, n); !again.Equal(got) {
		t.Fatalf("%d of %s: got %s, then %s", n, free, got, again)
	}
}

// checkWhole: with two threads per core and whole cores free, an even number splits no core.
func checkWhole(t *testing.T, top Topology, free Set, r *rand.Rand) {
	t.Helper()
	for _, core := range top.GroupBy(byCore) {
		if core.CPUs.Len() != 2 {
			return
		}
	}
	if free.Empty() {
		return
	}
	n := 2 * (1 + r.IntN(free.Len()/2))
	got, err := Pick(top, free, n)
	if err != nil || top.Cores(got)*2 != n {
		t.Fatalf("%d of the whole cores %s: got %s of %d cores, %v", n, free, got, top.Cores(got), err)
	}
}

func randomSubset(r *rand.Rand, top Topology) Set {
	var s Set
	for c := range top.All().All() {
		if r.IntN(3) > 0 {
			s.add(c)
		}
	}
	return s
}

func wholeCores(r *rand.Rand, top Topology) Set {
	var s Set
	for _, core := range top.GroupBy(byCore) {
		if r.IntN(3) > 0 {
			s = s.Union(core.CPUs)
		}
	}
	return s
}

func mustParse(t *testing.T, list string) Set {
	t.Helper()
	s, err := Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkPick(b *testing.B) {
	top := shapes()[5].build()
	free := top.All().Minus(Of(0, 192))
	for b.Loop() {
		if _, err := Pick(top, free, 37); err != nil {
			b.Fatal(err)
		}
	}
}
