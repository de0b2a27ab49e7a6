package tres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string][]Item{
		"":                                 nil,
		"cpu=4,mem=4000M,node=1,billing=4": {{Type: "cpu", Count: 4}, {Type: "mem", Count: 4000}, {Type: "node", Count: 1}, {Type: "billing", Count: 4}},
		"mem=62.50G":                       {{Type: "mem", Count: 64000}},
		"mem=2048K":                        {{Type: "mem", Count: 2}},
		"mem=5":                            {{Type: "mem", Count: 5}},
		"gres/gpu=2,gres/gpu:h200=2":       {{Type: "gres", Name: "gpu", Count: 2}, {Type: "gres", Name: "gpu", Model: "h200", Count: 2}},
		"license/matlab=3,fs/disk=4K":      {{Type: "license", Name: "matlab", Count: 3}, {Type: "fs", Name: "disk", Count: 4096}},
	}
	for in, want := range cases {
		t.Run(in, func(t *testing.T) {
			got, err := Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, in := range []string{"cpu", "=4", "cpu=", "cpu=x", "cpu=-1", "cpu=NaN", "cpu=0x10", "mem=1e300", "cpu=99999999999999P"} {
		var e *Error
		if got, err := Parse(in); !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %v, %v, want an *Error", in, got, err)
		}
	}
}

func TestParseGRES(t *testing.T) {
	cases := map[string][]GRES{
		"":                             nil,
		"(null)":                       nil,
		"gpu":                          {{Name: "gpu", Count: 1}},
		"gpu:4":                        {{Name: "gpu", Count: 4}},
		"gpu:h200":                     {{Name: "gpu", Type: "h200", Count: 1}},
		"gpu:h200:4":                   {{Name: "gpu", Type: "h200", Count: 4}},
		"gres/gpu:h200:4":              {{Name: "gpu", Type: "h200", Count: 4}},
		"gres/gpu=2":                   {{Name: "gpu", Count: 2}},
		"gpu:h200:2(IDX:0-1)":          {{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{0, 1}}},
		"gpu:3(IDX:0-1,3),nic:1(S:0)":  {{Name: "gpu", Count: 3, Indexes: []int{0, 1, 3}}, {Name: "nic", Count: 1, Sockets: "0"}},
		"gpu:dra:0(IDX:N/A)":           {{Name: "gpu", Type: "dra", Count: 0}},
		"gpu:h100:8(S:0-1),shard:100K": {{Name: "gpu", Type: "h100", Count: 8, Sockets: "0-1"}, {Name: "shard", Count: 102400}},
	}
	for in, want := range cases {
		t.Run(in, func(t *testing.T) {
			got, err := ParseGRES(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, in := range []string{":4", "gpu:a:b:c", "gpu:2(IDX:0-1", "gpu:h:x", "gpu:1(IDX:3-1)", "gpu:1(IDX:0-999999)"} {
		if got, err := ParseGRES(in); err == nil {
			t.Errorf("ParseGRES(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParseGRES(f *testing.F) {
	for _, s := range []string{"gpu:h200:2(IDX:0-1,3)", "gres/gpu=2,nic:1(S:0)", "(null)", "a:1K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseGRES(s)
		if err != nil {
			return
		}
		for _, g := range list {
			if _, err := ParseGRES(g.String()); err != nil {
				t.Errorf("%q was read from %q, but can't be read: %v", g, s, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("cpu=4,mem=62.50G,gres/gpu:h200=2")
	f.Fuzz(func(t *testing.T, s string) {
		items, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(Format(items))
		if diff := cmp.Diff(items, again); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", s, err, diff)
		}
	})
}

func ExampleParseGRES() {
	list, err := ParseGRES("gpu:h200:3(IDX:0-1,3)")
	fmt.Println(list[0].Type, list[0].Indexes, err)
	// Output: h200 [0 1 3] <nil>
}

func ExampleFormatIndexes() {
	fmt.Println(FormatIndexes([]int{3, 0, 1}))
	// Output: 0-1,3
}
