package cpuset

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "0": "0", "0-3": "0-3", "3,1,2": "1-3", "0-1,3,5-5\n": "0-1,3,5", " 64-66 ": "64-66", "1,1": "1", "16383": "16383",
	} {
		s, err := Parse(in)
		if err != nil || s.String() != want {
			t.Errorf("%q: got %q, %v; want %q", in, s, err, want)
		}
	}
	for _, bad := range []string{"a", "-1", "1-", "3-1", "1,,2", "+1", "0x1", "1 2", "16384", "0-99999999999999999999", "1-2-3", ","} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0-3,8")
	f.Add("0-9999")
	f.Fuzz(func(t *testing.T, list string) {
		s, err := Parse(list)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !again.Equal(s) || s.Len() != len(s.List()) {
			t.Errorf("%q: %q comes back as %q, %v", list, s, again, err)
		}
	})
}

// The operations agree with the same ones on slices.
func TestSetOperations(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		a, b := randomSet(r), randomSet(r)
		var union, both, minus []int
		for c := range 200 {
			switch {
			case a.Has(c) && b.Has(c):
				both = append(both, c)
			case a.Has(c):
				minus = append(minus, c)
			}
			if a.Has(c) || b.Has(c) {
				union = append(union, c)
			}
		}
		for what, x := range map[string]struct {
			got  Set
			want []int
		}{"union": {a.Union(b), union}, "intersection": {a.Intersect(b), both}, "difference": {a.Minus(b), minus}} {
			if !slices.Equal(x.got.List(), x.want) || !x.got.Equal(Of(x.want...)) || x.got.Len() != len(x.want) {
				t.Fatalf("%s of %s and %s: got %s, want %v", what, a, b, x.got, x.want)
			}
		}
		if a.Overlaps(b) != (len(both) > 0) || a.Within(b) != (len(minus) == 0) {
			t.Fatalf("%s and %s: overlaps %v, within %v", a, b, a.Overlaps(b), a.Within(b))
		}
	}
}

func randomSet(r *rand.Rand) Set {
	var s Set
	limit := 1 + r.IntN(200)
	for range r.IntN(20) {
		s.add(r.IntN(limit))
	}
	return s
}
