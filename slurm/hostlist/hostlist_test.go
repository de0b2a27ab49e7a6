package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	cases := map[string][]string{
		"":                     nil,
		"a":                    {"a"},
		"a,b":                  {"a", "b"},
		"a, b":                 {"a", "b"},
		"n[1-3]":               {"n1", "n2", "n3"},
		"n[08-11]":             {"n08", "n09", "n10", "n11"},
		"n[98-101]":            {"n98", "n99", "n100", "n101"},
		"n[099-101]":           {"n099", "n100", "n101"},
		"x[2,1,3]":             {"x2", "x1", "x3"},
		"n[1-2,7],login":       {"n1", "n2", "n7", "login"},
		"r[1-2]n[1-2]":         {"r1n1", "r1n2", "r2n1", "r2n2"},
		"r[1-2][01-02]":        {"r101", "r102", "r201", "r202"},
		"gpu[1-2]-ib":          {"gpu1-ib", "gpu2-ib"},
		"a[1],a[1]":            {"a1", "a1"},
		"[1-2]":                {"1", "2"},
		"n[0]":                 {"n0"},
		"n[000]":               {"n000"},
		"pool-1.example[9-10]": {"pool-1.example9", "pool-1.example10"},
	}
	for expr, want := range cases {
		t.Run(expr, func(t *testing.T) {
			got, err := Expand(expr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExpandErrors(t *testing.T) {
	cases := map[string]int{ // to the offset of the problem
		"a[1-3":                         1,
		"a]":                            1,
		"a[]":                           2,
		"a[1,]":                         4,
		"a[3-1]":                        2,
		"a[1-2-3]":                      2,
		"a[x]":                          2,
		"a[[1]]":                        2,
		"a,,b":                          2,
		",":                             0,
		"a\nb":                          1,
		"a[1-99999999999999999999]":     2,
		"a[+1]":                         2,
		"a[1-2],b[7-":                   8,
		"a[1-1000][1-1000][1-1000],b":   18,
		"a[1-900000000],b[1-900000000]": 2,
	}
	for expr, offset := range cases {
		t.Run(expr, func(t *testing.T) {
			got, err := Expand(expr)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Expand = %v, %v, want an *Error", got, err)
			}
			if e.Offset != offset {
				t.Errorf("offset %d, want %d: %v", e.Offset, offset, err)
			}
		})
	}
}

func TestExpandLimit(t *testing.T) {
	if got, err := ExpandLimit("a[1-5],b[1-5]", 10); err != nil || len(got) != 10 {
		t.Errorf("at the limit: %d names, %v", len(got), err)
	}
	for _, expr := range []string{"a[1-11]", "a[1-5],b[1-6]", "a[1-4][1-3]"} {
		if _, err := ExpandLimit(expr, 10); !errors.Is(err, ErrTooMany) {
			t.Errorf("%s: %v, want ErrTooMany", expr, err)
		}
	}
}

func TestCompress(t *testing.T) {
	cases := map[string][]string{
		"":                  nil,
		"a":                 {"a"},
		"n7":                {"n7"},
		"n[1-3]":            {"n3", "n1", "n2", "n1"},
		"n[08-11]":          {"n10", "n08", "n11", "n09"},
		"n[9-11]":           {"n9", "n10", "n11"},
		"n[99-101]":         {"n99", "n100", "n101"},
		"n[1,01-02]":        {"n1", "n01", "n02"},
		"a,a[1-2]":          {"a1", "a", "a2"},
		"a,b[1-2]":          {"b1", "b2", "a"},
		"gpu1-ib,gpu2-ib":   {"gpu2-ib", "gpu1-ib"},
		"n[1,3,5-6]":        {"n1", "n3", "n5", "n6"},
		"r1n[1-2],r2n[1-2]": {"r1n1", "r1n2", "r2n1", "r2n2"},
		"n[099-101,0101]":   {"n099", "n100", "n101", "n0101"},
	}
	for want, names := range cases {
		t.Run(want, func(t *testing.T) {
			if got := Compress(names); got != want || !sameSet(t, got, names) {
				t.Errorf("Compress(%q) = %q", names, got)
			}
		})
	}
}

func sameSet(t *testing.T, expr string, names []string) bool {
	t.Helper()
	got, err := Expand(expr)
	if err != nil {
		t.Fatalf("%q: %v", expr, err)
	}
	slices.Sort(got)
	want := slices.Compact(slices.Sorted(slices.Values(names)))
	return slices.Equal(got, want)
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "a", "n[1-3]", "n[08-11],x", "r[1-2]n[01-02]", "n[1-2]-ib", "a[", "n[0-0]", "x[99-101,7]", "00,0,000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		names, err := ExpandLimit(expr, 5000)
		if err != nil {
			return
		}
		if strings.ContainsAny(strings.Join(names, ""), "[], ") {
			return // spaces within a name: Expand reads them, no node has them
		}
		short := Compress(names)
		if !sameSet(t, short, names) {
			t.Errorf("%q: compressed to %q, which is another set than %q", expr, short, names)
		}
		if again := Compress(names); again != short {
			t.Errorf("Compress gave %q, then %q", short, again)
		}
	})
}

func manyNames() []string {
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprintf("node%05d", i)
	}
	return names
}

func BenchmarkExpand100k(b *testing.B) {
	for b.Loop() {
		if _, err := Expand("node[00000-99999]"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompress100k(b *testing.B) {
	names := manyNames()
	for b.Loop() {
		Compress(names)
	}
}

func ExampleExpand() {
	names, err := Expand("gpu[08-10],login")
	fmt.Println(names, err)
	// Output: [gpu08 gpu09 gpu10 login] <nil>
}

func ExampleCompress() {
	fmt.Println(Compress([]string{"gpu09", "login", "gpu08", "gpu10"}))
	// Output: gpu[08-10],login
}
