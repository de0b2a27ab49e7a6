package hostlist

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	cases := map[string][]string{
		"":                            nil,
		"a":                           {"a"},
		"a,b":                         {"a", "b"},
		"a, b":                        {"a", "b"},
		"n[1-3]":                      {"n1", "n2", "n3"},
		"n[08-11]":                    {"n08", "n09", "n10", "n11"},
		"n[98-101]":                   {"n98", "n99", "n100", "n101"},
		"n[099-101]":                  {"n099", "n100", "n101"},
		"x[2,1,3]":                    {"x2", "x1", "x3"},
		"n[1-2,7],login":              {"n1", "n2", "n7", "login"},
		"r[1-2]n[1-2]":                {"r1n1", "r1n2", "r2n1", "r2n2"},
		"r[1-2][01-02]":               {"r101", "r102", "r201", "r202"},
		"gpu[1-2]-ib":                 {"gpu1-ib", "gpu2-ib"},
		"a[1],a[1]":                   {"a1", "a1"},
		"[1-2]":                       {"1", "2"},
		"n[0]":                        {"n0"},
		"n[000]":                      {"n000"},
		"pool-1.example[9-10]":        {"pool-1.example9", "pool-1.example10"},
		"a,,b, ,\tc\nd,":              {"a", "b", "c", "d"},
		" , ":                         nil,
		"n[1-03]":                     {"n1", "n2", "n3"},
		"n[0000000000000000000001-2]": {"n0000000000000000000001", "n0000000000000000000002"},
		"n18446744073709551616":       {"n18446744073709551616"},
		"a[1-2]b[3-4]c":               {"a1b3c", "a1b4c", "a2b3c", "a2b4c"},
		"a[1-2,4]b[1-2]c[1-2]":        {"a1b1c1", "a1b1c2", "a2b1c1", "a2b1c2", "a4b1c1", "a4b1c2", "a1b2c1", "a1b2c2", "a2b2c1", "a2b2c2", "a4b2c1", "a4b2c2"},
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
		"a[1-3":                     1,
		"a]":                        1,
		"a[]":                       2,
		"a[1,]":                     4,
		"a[3-1]":                    2,
		"a[1-2-3]":                  2,
		"a[x]":                      2,
		"a[[1]]":                    2,
		"a\rb":                      1,
		"a\x00":                     1,
		"a]b":                       1,
		"a[1-2]]":                   6,
		"x,feature{gpu}":            9,
		"a}":                        1,
		"a[1-]":                     2,
		"a[-1]":                     2,
		"a[1, 2]":                   4,
		"n[99999999999999999998-9]": 2,
		"b,n[1][" + strings.Repeat("0", 1100) + "]": 7,
		"b," + strings.Repeat("a", 1020) + "[1000]": 2,
		"a[1-99999999999999999999]":                 2,
		"a[+1]":                                     2,
		"a[1-2],b[7-":                               8,
		"a[1-1000][1-1000][1-1000],b":               17,
		"a[1-900000000],b[1-900000000]":             2,
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
		"n[1,3,02]":         {"n1", "n02", "n3"},
		"a9b1,a10b1":        {"a10b1", "a9b1", ""},
		"n1,n-1,n.1":        {"n-1", "n1", "n.1"},
		"n[1,01,001]":       {"n001", "n01", "n1"},
		"[1-3]":             {"1", "2", "3"},
		"n10[00000000000000000-00000000000000001]": {"n1000000000000000000", "n1000000000000000001"},
		"r01n1,r1n1,r2n1,r10n1":                    {"r10n1", "r2n1", "r1n1", "r01n1"},
	}
	for want, names := range cases {
		t.Run(want, func(t *testing.T) {
			if got := Compress(names); got != want || !sameSet(t, got, names) {
				t.Errorf("Compress(%q) = %q", names, got)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	cases := map[string][]string{
		"":                    nil,
		"n[3,1-2]":            {"n3", "n1", "n2"},
		"n[1-2,2-3]":          {"n1", "n2", "", "n2", "n3"},
		"n1,m1,n2":            {"n1", "m1", "n2"},
		"n[99-100],n":         {"n99", "n100", "n"},
		"n[9,010]":            {"n9", "n010"},
		"gpu1-ib,gpu2-ib":     {"gpu1-ib", "gpu2-ib"},
		"n[1,3,2,4]":          {"n1", "n3", "n2", "n4"},
		"n,n,[7,7]":           {"n", "n", "7", "7"},
		"n[09-11,012],m[1-2]": {"n09", "n10", "n11", "n012", "m1", "m2"},
	}
	for want, names := range cases {
		t.Run(want, func(t *testing.T) {
			got := Join(names)
			if got != want {
				t.Errorf("Join(%q) = %q", names, got)
			}
			back, err := Expand(got)
			if diff := cmp.Diff(withoutEmpty(names), back); err != nil || diff != "" {
				t.Errorf("%q expands to other names: %v\n%s", got, err, diff)
			}
		})
	}
}

func withoutEmpty(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
}

func TestCompressMany(t *testing.T) {
	names := manyNames()
	names = append(names, "node7", "node0007", "node12345678901234567", names[0], "node")
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if got, want := Compress(names), "node,node[7,0007,00000-99999,12345678901234567]"; got != want {
		t.Errorf("got %.200q, want %q", got, want)
	}
}

func sameSet(t *testing.T, expr string, names []string) bool {
	t.Helper()
	got, err := Expand(expr)
	if err != nil {
		t.Fatalf("%q: %v", expr, err)
	}
	slices.Sort(got)
	want := slices.Compact(slices.Sorted(slices.Values(withoutEmpty(names))))
	return slices.Equal(got, want)
}

// slurmsAnswers are expressions as Slurm printed them for nodes and jobs, and forms that it reads.
func slurmsAnswers() []string {
	return []string{
		"", "a", "x1", "k[1-3]", "n[1-2]", "x[110-111]", "x[101,110-111]", "s[1-2]", "n[08-11],x", "n[099-101,0101]", "n[1,3,2,4]",
		"r[1-2]n[01-02]", "a[1-2,4]b[1-2]c[1-2]", "n[1-2]-ib", "gpu1-ib,gpu2-ib", "a[", "n[0-0]", "x[99-101,7]", "00,0,000",
		"a, b", "pool-1.example[9-10]", "feature{gpu}", "n18446744073709551615", "n[0000000000000000000001-3]",
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range slurmsAnswers() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		names, err := ExpandLimit(expr, 5000)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Offset < 0 || e.Offset > len(expr)) {
			t.Fatalf("%q: error %#v", expr, err)
		}
		if err != nil {
			return
		}
		if joined := Join(names); !slices.Equal(mustExpand(t, joined), names) {
			t.Errorf("%q: joined to %q, which is another list than %q", expr, joined, names)
		}
		short := Compress(names)
		if !sameSet(t, short, names) {
			t.Errorf("%q: compressed to %q, which is another set than %q", expr, short, names)
		}
		Sort(names)
		if sorted := Join(slices.Compact(names)); sorted != short {
			t.Errorf("%q: compressed to %q, but sorted and joined to %q", expr, short, sorted)
		}
	})
}

// FuzzNames begins with names that no expression need have given.
func FuzzNames(f *testing.F) {
	f.Add("n1 n2 n010 n9 m")
	f.Add("r1n1 r10n1 r2n1 r01n1 n-1 n.1 n1")
	f.Add("n18446744073709551615 n18446744073709551614 99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		names := strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(",[]{}", r) })
		if slices.ContainsFunc(names, func(n string) bool { return len(n) > maxName }) {
			return
		}
		if joined := Join(names); !slices.Equal(mustExpand(t, joined), names) {
			t.Errorf("%q joined to %q", names, joined)
		}
		short := Compress(names)
		slices.Reverse(names)
		if again := Compress(names); again != short || !sameSet(t, short, names) {
			t.Errorf("%q compressed to %q, reversed to %q", names, short, again)
		}
	})
}

func mustExpand(t *testing.T, expr string) []string {
	t.Helper()
	names, err := Expand(expr)
	if err != nil {
		t.Fatalf("%q: %v", expr, err)
	}
	if names == nil {
		names = []string{}
	}
	return names
}

func ExampleExpand() {
	names, err := Expand("gpu[08-10],login")
	fmt.Println(names, err)
	// Output: [gpu08 gpu09 gpu10 login] <nil>
}

func ExampleJoin() {
	fmt.Println(Join([]string{"n3", "n1", "n2", "login"}))
	// Output: n[3,1-2],login
}

func ExampleSort() {
	names := []string{"rack10-n1", "rack9-n2", "rack9-n10", "rack9-n1"}
	Sort(names)
	fmt.Println(names)
	// Output: [rack9-n1 rack9-n2 rack9-n10 rack10-n1]
}

func ExampleCompress() {
	fmt.Println(Compress([]string{"gpu09", "login", "gpu08", "gpu10"}))
	// Output: gpu[08-10],login
}
