package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// sample is what the kernel lets each container of a node run on, at one moment.
type sample struct {
	at   time.Time
	sets map[string]cpuset.Set // by the container's ID
}

// subject is a container that a story watches.
type subject struct {
	name string // its pod's
	// pinned is what its claim has; a shared container has none.
	pinned cpuset.Set
	// reported is when the API told that it runs; zero if that was never heard of.
	reported time.Time
}

// absence is a time in which the driver couldn't act: it, or the runtime, had been killed.
type absence struct {
	what     string
	from, to time.Time
}

// checkPins finds what must never be: a CPU in two exclusive sets; a pinned container on
// other CPUs than its claim's; and, once both are reported to run, a shared container on
// an exclusive CPU. Nothing stops the runtime from making a shared container while the
// driver is away, so one that is made then may have too many CPUs until the driver is back.
func checkPins(samples []sample, subjects map[string]subject, away []absence) []string {
	var faults []string
	fault := func(at time.Time, format string, args ...any) {
		text := at.Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
		if len(faults) < 20 {
			faults = append(faults, text)
		}
	}
	made := map[string]time.Time{}
	for _, s := range samples {
		var pinned, shared []string
		for id := range s.sets {
			if _, ok := made[id]; !ok {
				made[id] = s.at
			}
			of, known := subjects[id]
			switch {
			case !known:
			case !of.pinned.Empty():
				pinned = append(pinned, id)
			case reportedBy(of, s.at) && !excused(made[id], s.at, away):
				shared = append(shared, id)
			}
		}
		slices.Sort(pinned)
		slices.Sort(shared)
		for i, id := range pinned {
			of, has := subjects[id], s.sets[id]
			for _, other := range pinned[:i] {
				if both := has.Intersect(s.sets[other]); !both.Empty() && reportedBy(of, s.at) && reportedBy(subjects[other], s.at) {
					fault(s.at, "%s and %s both have CPU %s to themselves", subjects[other].name, of.name, both)
				}
			}
			if !reportedBy(of, s.at) {
				continue
			}
			if !has.Equal(of.pinned) {
				fault(s.at, "%s runs on CPUs %s, and its claim has %s", of.name, has, of.pinned)
			}
			for _, other := range shared {
				if s.sets[other].Overlaps(of.pinned) {
					fault(s.at, "%s, which has no claim, may run on CPUs %s, and %s has %s", subjects[other].name, s.sets[other], of.name, of.pinned)
				}
			}
		}
	}
	return faults
}

func reportedBy(s subject, at time.Time) bool { return !s.reported.IsZero() && !at.Before(s.reported) }

// excused: it was made in an absence that lasts.
func excused(made, at time.Time, away []absence) bool {
	return slices.ContainsFunc(away, func(a absence) bool {
		return !made.Before(a.from) && !made.After(a.to) && !at.After(a.to)
	})
}

// beside counts the samples in which a reported pinned and a reported shared container ran at the
// same time: how much of it all the check has seen.
func beside(samples []sample, subjects map[string]subject) int {
	n := 0
	for _, s := range samples {
		var pinned, shared bool
		for id := range s.sets {
			if of, ok := subjects[id]; ok && reportedBy(of, s.at) {
				pinned, shared = pinned || !of.pinned.Empty(), shared || of.pinned.Empty()
			}
		}
		if pinned && shared {
			n++
		}
	}
	return n
}

// The check of the story finds each thing that it is there for.
func TestCheckPins(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	set := func(list string) cpuset.Set {
		s, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	subjects := map[string]subject{
		"p": {"pinned", set("0"), at(100)}, "q": {"other", set("1"), at(100)}, "s": {"shared", cpuset.Set{}, at(50)}, "n": {"new", cpuset.Set{}, time.Time{}},
	}
	for name, x := range map[string]struct {
		sets map[int]map[string]string
		away []absence
		want string // "" for none
	}{
		"all is well":                      {sets: map[int]map[string]string{200: {"p": "0", "q": "1", "s": "2-3"}}},
		"before the start is reported":     {sets: map[int]map[string]string{90: {"p": "0-3", "s": "0-3"}, 200: {"p": "0", "s": "1-3"}}},
		"a shared one nobody reported":     {sets: map[int]map[string]string{200: {"p": "0", "n": "0-3"}}},
		"containers of others":             {sets: map[int]map[string]string{200: {"p": "0", "x": "0-3"}}},
		"two have one CPU":                 {sets: map[int]map[string]string{200: {"p": "0", "q": "0-1"}}, want: "both have CPU 0"},
		"another CPU than the claim's":     {sets: map[int]map[string]string{200: {"p": "2"}}, want: "runs on CPUs 2, and its claim has 0"},
		"more CPUs than the claim's":       {sets: map[int]map[string]string{200: {"p": "0-3"}}, want: "its claim has 0"},
		"shared on exclusive":              {sets: map[int]map[string]string{200: {"p": "0", "s": "0-3"}}, want: "shared, which has no claim, may run on CPUs 0-3"},
		"shared on exclusive, for a while": {sets: map[int]map[string]string{200: {"p": "0", "s": "1"}, 210: {"p": "0", "s": "0-1"}, 220: {"p": "0", "s": "1"}}, want: "shared, which"},
		"made while the driver is away":    {sets: map[int]map[string]string{200: {"p": "0", "s": "0-3"}}, away: []absence{{"driver", at(190), at(300)}}},
		"made while it is away, and later": {sets: map[int]map[string]string{200: {"p": "0", "s": "0-3"}, 310: {"p": "0", "s": "0-3"}}, away: []absence{{"driver", at(190), at(300)}}, want: "shared, which"},
		"made before it went away":         {sets: map[int]map[string]string{180: {"p": "0", "s": "1"}, 200: {"p": "0", "s": "0-3"}}, away: []absence{{"driver", at(190), at(300)}}, want: "shared, which"},
		"a pinned one has no excuse":       {sets: map[int]map[string]string{200: {"p": "0-3"}}, away: []absence{{"driver", at(190), at(300)}}, want: "its claim has 0"},
	} {
		var samples []sample
		for ms, sets := range x.sets {
			s := sample{at(ms), map[string]cpuset.Set{}}
			for id, list := range sets {
				s.sets[id] = set(list)
			}
			samples = append(samples, s)
		}
		slices.SortFunc(samples, func(a, b sample) int { return a.at.Compare(b.at) })
		got := strings.Join(checkPins(samples, subjects, x.away), "\n")
		if got == "" != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
	if n := beside([]sample{{at(60), map[string]cpuset.Set{"p": set("0"), "s": set("1")}}, {at(200), map[string]cpuset.Set{"p": set("0"), "s": set("1")}},
		{at(201), map[string]cpuset.Set{"p": set("0")}}}, subjects); n != 1 {
		t.Errorf("%d samples of both, want 1", n)
	}
}
