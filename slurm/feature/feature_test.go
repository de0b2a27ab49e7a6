package feature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// understood are expressions that Slurm takes, and so does Parse.
func understood() []string {
	return []string{
		"a", "a&b", "a,b", "a|b", "a|b&c", "a&b|c", "c|a&b", "(a|b)&c", "(a&b)|c", "a&(b|c)", "a|(b&c)", "a&b&c", "(a)", "(a|b)|(c&a)",
		"(a|b)&(b|c)", "a|b|c&a", "a,b|c", "a|b,c", "a|a&b", "ext&a", "[a|b]", "[a|b]&c", "c&[a|b]", "[a|b|c]", "[(a&b)|c]", "[(a|b)|(b&c)]",
		"[(a,b)|c]", "[a]", "[a]&b", "a&[b]", "[a|b]&c&a", "[a|b]&c|a", "a|b&[c]", "a|b&[b|c]", "[a|b]&(a|c)", "(a|c)&[a|b]",
	}
}

// counted are expressions with counts that Slurm takes, and so does Parse.
func counted() []string {
	return []string{"a*1", "a*2", "a*01", "[a*1]", "[a*2]", "[a*1&b*1]", "[a*1,b*2]", "[(a)*1&b*1]", "[(a|b)*1&c*1]", "[a*1&(b|c)*1]", "[(a&b)*1&c*1]"}
}

// refused are expressions that Slurm refuses, and so does Parse, with the offset that it tells.
func refused() map[string]int {
	return map[string]int{
		"((a))": 1, "a&(b|(c&a))": 5, "[a|b": 4, "a]": 1, "(a": 2, "a)": 1, "&a": 0, "a&&b": 2, "a||b": 2, "a|&b": 2, " a": 0, "a b": 1, "a*": 2,
		"a*0": 2, "a*-1": 2, "a*x": 2, "(a&b)*1": 5, "[]": 1, "()": 1, "[a&b]": 0, "[a*2|b*1]": 0, "[[a|b]]": 1, "[a|b]&[b|c]": 6, "([a|b])": 1,
		"a(b)": 1, "(a)b": 3, "a*1|b": 0, "[a*1&b]": 0, "a*1&b": 0, "a&b*1": 2, "a*2&b*1": 0, "[a|b&c]": 0, "[a&b|c]": 0, "[a,b]": 0, "(a*1)": 2,
		"[a*1|b*1]": 0, "[a*1&b*1|c*1]": 0, "(a|b)(c)": 5, "[a][b]": 3, "[a]b": 3, "a[b]": 1, "[a|]": 3, "[|a]": 1, "(a&)": 3, "(|a)": 1, "|a": 0,
		"[(a*1&b)|c]": 3, "(a|b)*1&c": 5, "[a*1]|[b*1]": 6, "a:b*1&c": 0,
	}
}

// guessed are expressions that Slurm takes, but answers in its own way, and that Parse refuses.
func guessed() map[string]int {
	return map[string]int{
		"a&": 2, "a,": 2, "a|": 2, "(a&b)&": 6, "[a|b]&": 6, "a*1x": 3, "a*99999999999": 2, "(a)*1": 3, "c|[a|b]": 2, "[a|b]|c": 0,
		"[a*1&b*1]&c": 0, "c&[a*1&b*1]": 2, "c|[a*1&b*1]": 2, "[a*1]&b": 0, "[a*1&b*1]|c": 0,
	}
}

func TestParse(t *testing.T) {
	for _, s := range slices.Concat([]string{"", "nvidia.com/gpu-1.2_x&é"}, understood(), counted()) {
		e, err := Parse(s)
		if err != nil {
			t.Error(err)
			continue
		}
		printed := strings.ReplaceAll(strings.ReplaceAll(s, ",", "&"), "*01", "*1")
		if got := e.String(); got != printed {
			t.Errorf("%q is printed as %q", s, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, table := range []map[string]int{refused(), guessed(), {strings.Repeat("a", MaxLength+1): MaxLength, "a\x00": 1, "a\n": 1, `"a"`: 0}} {
		for s, offset := range table {
			got, err := Parse(s)
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("Parse(%.40q) = %v, %v, want an *Error", s, got, err)
			} else if e.Offset != offset {
				t.Errorf("offset %d, want %d: %v", e.Offset, offset, err)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	cases := map[string][]string{ // to the nodes that match, each with its features as its name
		"":              {"", "c", "b", "bc", "a", "ac", "ab", "abc"},
		"a|b&c":         {"bc", "ac", "abc"},
		"c|a&b":         {"bc", "ab", "abc"},
		"c|(a&b)":       {"c", "bc", "ac", "ab", "abc"},
		"[a|b]&c":       {"bc", "ac", "abc"},
		"[(a&b)|c]":     {"c", "bc", "ac", "ab", "abc"},
		"[(a&b)*2&c*1]": {"c", "bc", "ac", "ab", "abc"},
		"a*3":           {"a", "ac", "ab", "abc"},
		"a&d":           nil,
	}
	for s, want := range cases {
		e, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, node := range cases[""] {
			if e.Match(strings.Split(node, "")...) {
				got = append(got, node)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", s, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range slices.Concat(understood(), counted()) {
		f.Add(s)
	}
	for _, table := range []map[string]int{refused(), guessed()} {
		for s := range table {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			var ours *Error
			if !errors.As(err, &ours) || ours.Offset < 0 || ours.Offset > len(s) {
				t.Errorf("%q: error %#v", s, err)
			}
			return
		}
		again, err := Parse(e.String())
		if diff := cmp.Diff(e, again); err != nil || diff != "" {
			t.Errorf("%q was read, printed as %q, and read otherwise: %v\n%s", s, e, err, diff)
		}
		if names := e.Names(); !e.Match(names...) {
			t.Errorf("%q has no operator that a node with all of %q could fail, but it does", s, names)
		}
	})
}

func ExampleParse() {
	e, err := Parse("intel&(gpu|fpga)")
	fmt.Println(e.Match("intel", "gpu"), e.Match("amd", "gpu"), err)
	_, err = Parse("intel&&gpu")
	fmt.Println(err)
	// Output:
	// true false <nil>
	// feature expression "intel&&gpu": at byte 6: '&' where a feature must be
}

func ExampleExpr_Names() {
	e, err := Parse("[rack1*2&(rack2|rack3)*1]")
	fmt.Println(e.Names(), e.Terms[0].Bracket.Terms[0].Count, err)
	// Output: [rack1 rack2 rack3] 2 <nil>
}

func ExampleExpr_String() {
	e := Expr{Terms: []Term{{Name: "gpu"}, {Op: And, Bracket: &Expr{Terms: []Term{{Name: "rack1"}, {Op: Or, Name: "rack2"}}}}}}
	fmt.Println(e)
	// Output: gpu&[rack1|rack2]
}
