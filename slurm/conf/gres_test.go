package conf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gresConf() GresConf {
	return GresConf{AutoDetect: "off", Lines: []GresLine{
		{Nodes: []string{"n9"}, Name: "gpu", Type: "h200", File: "/dev/tty[0-1]", Cores: []int{0, 1, 2, 3}, Flags: []string{"nvidia_gpu_env"}},
		{Nodes: []string{"n9"}, Name: "gpu", Type: "1g.10gb", File: "/dev/tty2", Links: []int{0, 0, -1}},
		{Nodes: []string{"n9", "n8"}, Name: "nic", Count: 2, Flags: []string{"CountOnly", "one_sharing"}},
		{Nodes: []string{"n8"}, AutoDetect: "off"},
	}}
}

func TestGresConf(t *testing.T) {
	got, err := gresConf().Text()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "gres.conf", got)
}

func TestGresConfRefused(t *testing.T) {
	cases := map[string]struct {
		line GresLine
		want string
	}{
		"newline in name":   {GresLine{Name: "gpu\nNodeName=x"}, "Name"},
		"blank in type":     {GresLine{Name: "gpu", Type: "a File=/etc/shadow"}, "Type"},
		"newline in file":   {GresLine{Name: "gpu", File: "/dev/a\nName=b"}, "line break"},
		"quote in file":     {GresLine{Name: "gpu", File: `/dev/"a`}, "double quote"},
		"relative file":     {GresLine{Name: "gpu", File: "dev/a"}, "absolute path"},
		"comma in a flag":   {GresLine{Name: "gpu", Flags: []string{"a,b"}}, "Flags"},
		"range as a node":   {GresLine{Name: "gpu", Nodes: []string{"n[1-3]"}}, "gres.conf, line 1"},
		"empty node":        {GresLine{Name: "gpu", Nodes: []string{""}}, "is no name"},
		"long node":         {GresLine{Name: "gpu", Nodes: []string{"n1234567890123456789"}}, "18 digits"},
		"no name":           {GresLine{Count: 1}, "line 1: a resource has no name"},
		"nothing":           {GresLine{}, "line 1: a resource has no name"},
		"blank AutoDetect":  {GresLine{AutoDetect: "off Name=x"}, "AutoDetect"},
		"autodetect a type": {GresLine{AutoDetect: "off", Type: "x"}, "has no name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := GresConf{Lines: []GresLine{tc.line}}.Text()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want it to contain %q; text %q", err, tc.want, text)
			}
		})
	}
}

// FuzzGresConf checks that the line that is printed has the keys and values that were given, and no others.
func FuzzGresConf(f *testing.F) {
	f.Add("n1", "gpu", "h200", "/dev/nvidia[0-3]", "CountOnly")
	f.Add("", "shard", "", "", "")
	f.Add("n1\n", "gpu Type=x", `"`, "/dev/a#b", "a,b")
	f.Add("gpu-0", "gpu", "1g.10gb", `/dev/\x`, "nvidia_gpu_env")
	f.Fuzz(func(t *testing.T, node, name, kind, file, flag string) {
		l := GresLine{Name: name, Type: kind, File: file}
		want := []Pair{{"Name", name}}
		if node != "" {
			l.Nodes = []string{node}
			want = append([]Pair{{"NodeName", node}}, want...)
		}
		if kind != "" {
			want = append(want, Pair{"Type", kind})
		}
		if file != "" {
			// A value's backslash and number sign are printed with a backslash in front.
			want = append(want, Pair{"File", strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(file)})
		}
		if flag != "" {
			l.Flags = []string{flag}
			want = append(want, Pair{"Flags", flag})
		}
		text, err := GresConf{Lines: []GresLine{l}}.Text()
		if err != nil {
			return
		}
		if strings.Count(text, "\n") != 1 {
			t.Fatalf("%+v became more than a line: %q", l, text)
		}
		got, err := ParsePairs(withoutComment(strings.TrimSuffix(text, "\n")))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%+v became %q: %v\n%s", l, text, err, diff)
		}
	})
}
