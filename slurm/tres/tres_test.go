package tres

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string][]Item{
		"":                                   nil,
		"cpu=4,mem=4000M,node=1,billing=4":   {{Type: "cpu", Count: 4}, {Type: "mem", Count: 4000}, {Type: "node", Count: 1}, {Type: "billing", Count: 4}},
		"(null)":                             nil,
		"mem=1.50T,cpu=18446744073709551615": {{Type: "mem", Count: 1572864}, {Type: "cpu", Count: 18446744073709551615}},
		"mem=1K":                             {{Type: "mem", Count: 1}},
		"mem=62.50G":                         {{Type: "mem", Count: 64000}},
		"mem=2048K":                          {{Type: "mem", Count: 2}},
		"mem=5":                              {{Type: "mem", Count: 5}},
		"gres/gpu=2,gres/gpu:h200=2":         {{Type: "gres", Name: "gpu", Count: 2}, {Type: "gres", Name: "gpu", Model: "h200", Count: 2}},
		"license/matlab=3,fs/disk=4K":        {{Type: "license", Name: "matlab", Count: 3}, {Type: "fs", Name: "disk", Count: 4096}},
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
	for _, in := range []string{"cpu", "=4", "cpu=", "cpu=x", "cpu=-1", "cpu=NaN", "cpu=0x10", "mem=1e300", "cpu=99999999999999P", "cpu=1.5", "mem=1.5", "mem=1.5.5G", "mem=+1", "gres/=1", "gres/gpu:=1", "gres/gpu=1=2", "a b=1", "mem=9999999999999999999P", "mem=99999999999999999999"} {
		var e *Error
		if got, err := Parse(in); !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %v, %v, want an *Error", in, got, err)
		}
	}
}

func TestParseGRES(t *testing.T) {
	cases := map[string][]GRES{
		"":                            nil,
		"(null)":                      nil,
		"gpu":                         {{Name: "gpu", Count: 1}},
		"gpu:4":                       {{Name: "gpu", Count: 4}},
		"gpu:h200":                    {{Name: "gpu", Type: "h200", Count: 1}},
		"gpu:h200:4":                  {{Name: "gpu", Type: "h200", Count: 4}},
		"gres/gpu:h200:4":             {{Name: "gpu", Type: "h200", Count: 4}},
		"gres/gpu=2":                  {{Name: "gpu", Count: 2}},
		"gpu:h200:2(IDX:0-1)":         {{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{0, 1}}},
		"gpu:3(IDX:0-1,3),nic:1(S:0)": {{Name: "gpu", Count: 3, Indexes: []int{0, 1, 3}}, {Name: "nic", Count: 1, Sockets: []int{0}}},
		"N/A":                         nil,
		"gpu:1g.10gb:1":               {{Name: "gpu", Type: "1g.10gb", Count: 1}},
		"gpu:1g.10gb":                 {{Name: "gpu", Type: "1g.10gb", Count: 1}},
		"gres/gpu:h200=2":             {{Name: "gpu", Type: "h200", Count: 2}},
		"shm:no_consume:4M,fs:fast:no_consume:1k": {{Name: "shm", Count: 4 << 20, NoConsume: true}, {Name: "fs", Type: "fast", Count: 1024, NoConsume: true}},
		"shard:2(2/4,0/4),gpu:1(CNT:1)":           {{Name: "shard", Count: 2, Detail: "2/4,0/4"}, {Name: "gpu", Count: 1, Detail: "CNT:1"}},
		"gpu:dra:0(IDX:N/A)":                      {{Name: "gpu", Type: "dra", Count: 0, Indexes: []int{}}},
		"gpu:h100:8(S:0-1),shard:100K":            {{Name: "gpu", Type: "h100", Count: 8, Sockets: []int{0, 1}}, {Name: "shard", Count: 102400}},
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
	for _, in := range []string{":4", "gpu:a:b:c", "gpu:2(IDX:0-1", "gpu:h:x", "gpu:1(IDX:3-1)", "gpu:1(IDX:0-999999)", "gpu::1", "gpu:", "gpu:h200:", "gpu:h:1x", "gpu:h200=", "gpu=1=2", "gpu:1(S:x)", "gpu:1((a))", "gpu:1(S:0)x", "g pu:1", "gpu:h:20000P", "gpu:a:b:1"} {
		if got, err := ParseGRES(in); err == nil {
			t.Errorf("ParseGRES(%q) = %v, want an error", in, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, s := range []string{
		"", "cpu=4,mem=1000M,node=1,billing=4,gres/gpu=1", "mem=62.50G", "mem=1G", "mem=1025M", "mem=3000M", "mem=1.50T", "mem=1024P",
		"mem=512M", "mem=0M", "cpu=1,gres/gpu:h200=2,license/matlab=3",
	} {
		items, err := Parse(s)
		if got := Format(items); err != nil || got != s {
			t.Errorf("%q is printed as %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "gpu:h200:2(IDX:0-1,3),nic:1(S:0)", "gpu:0(IDX:N/A)", "shm:no_consume:4", "shard:2(2/4,0/4)"} {
		list, err := ParseGRES(s)
		if got := FormatGRES(list); err != nil || got != s {
			t.Errorf("%q is printed as %q, %v", s, got, err)
		}
	}
}

func FuzzParseGRES(f *testing.F) {
	for _, s := range append(recorded(f, "gres"),
		"gpu:h200:2(IDX:0-1,3)", "gres/gpu=2,nic:1(S:0)", "(null)", "N/A", "a:1K", "gpu:dra:0(IDX:N/A)", "gpu:h200:4(S:0-1)", "gpu:dracula:4(IDX:0-3)",
		"gres/gpu:h100:2", "shm:no_consume:4M", "shard:2(2/4,0/4)", "gpu:1g.10gb:1", "gpu:h200:4",
	) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseGRES(s)
		if err != nil {
			return
		}
		again, err := ParseGRES(FormatGRES(list))
		if diff := cmp.Diff(list, again); err != nil || diff != "" {
			t.Errorf("%q was read, printed as %q, and read otherwise: %v\n%s", s, FormatGRES(list), err, diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range append(recorded(f, "tres"),
		"cpu=4,mem=62.50G,gres/gpu:h200=2", "cpu=4,mem=1000M,node=1,billing=4,gres/gpu=1", "cpu=16,mem=62.50G,billing=16", "fs/disk=4K", "mem=1.50T",
		"(null)", "cpu=18446744073709551615", "cpu=1,mem=10M,node=1,billing=1",
	) {
		f.Add(s)
	}
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

func FuzzParseIndexes(f *testing.F) {
	for _, s := range []string{"", "0", "0-3", "0-1,3", "3,0", "N/A", "65535", "1-0", "0-65536"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		indexes, err := ParseIndexes(s)
		if err != nil {
			return
		}
		again, err := ParseIndexes(FormatIndexes(indexes))
		if diff := cmp.Diff(indexes, again); err != nil || diff != "" || !slices.IsSorted(indexes) {
			t.Errorf("%q: %v: %v\n%s", s, indexes, err, diff)
		}
	})
}

func ExampleParseGRES() {
	list, err := ParseGRES("gpu:h200:3(IDX:0-1,3)")
	fmt.Println(list[0].Type, list[0].Indexes, err)
	// Output: h200 [0 1 3] <nil>
}

func ExampleParse() {
	items, err := Parse("cpu=4,mem=62.50G,gres/gpu:h200=2")
	fmt.Println(items[1].Type, items[1].Count, items[2].Model, err)
	fmt.Println(Format(items))
	// Output:
	// mem 64000 h200 <nil>
	// cpu=4,mem=62.50G,gres/gpu:h200=2
}

func ExampleFormatGRES() {
	fmt.Println(FormatGRES([]GRES{{Name: "gpu", Type: "h200", Count: 2, Indexes: []int{1, 0}}, {Name: "shard", Count: 16}}))
	// Output: gpu:h200:2(IDX:0-1),shard:16
}

func ExampleFormatIndexes() {
	fmt.Println(FormatIndexes([]int{3, 0, 1}))
	// Output: 0-1,3
}
