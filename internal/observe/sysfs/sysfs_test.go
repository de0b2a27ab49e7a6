package sysfs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// What is read from the files of many machines.
func TestReadGolden(t *testing.T) {
	var out strings.Builder
	for _, m := range models() {
		top, err := Read(m.fs())
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		out.WriteString(summary(m.name, top))
	}
	path := filepath.Join("testdata", "machines.txt")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

func summary(name string, top cpuset.Topology) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n  online %s, SMT %v\n", name, top.All(), top.SMT)
	kinds := map[cpuset.CoreType]cpuset.Set{}
	var isolated cpuset.Set
	for _, c := range top.CPUs {
		kinds[c.Type] = kinds[c.Type].Union(cpuset.Of(c.ID))
		if c.Isolated {
			isolated = isolated.Union(cpuset.Of(c.ID))
		}
	}
	for _, k := range []cpuset.CoreType{cpuset.Standard, cpuset.Performance, cpuset.Efficiency} {
		if s, ok := kinds[k]; ok {
			fmt.Fprintf(&out, "  %s: %s\n", k, s)
		}
	}
	if !isolated.Empty() {
		fmt.Fprintf(&out, "  isolated: %s\n", isolated)
	}
	for _, g := range []struct {
		name string
		id   func(cpuset.CPU) int
	}{
		{"socket", func(c cpuset.CPU) int { return c.Socket }},
		{"node", func(c cpuset.CPU) int { return c.NUMA }},
		{"cluster", func(c cpuset.CPU) int { return c.Cluster }},
		{"L3", func(c cpuset.CPU) int { return c.L3 }},
		{"core", func(c cpuset.CPU) int { return c.Core }},
	} {
		groups := top.GroupBy(g.id)
		fmt.Fprintf(&out, "  %d of %s:", len(groups), g.name)
		for i, s := range groups {
			if i < 4 || i == len(groups)-1 {
				fmt.Fprintf(&out, " %d=%s", s.ID, s.CPUs)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func TestReadRefuses(t *testing.T) {
	for name, online := range map[string]string{"empty": "", "broken": "0-", "not there": "-"} {
		root := fstest.MapFS{"devices/system/cpu/online": &fstest.MapFile{Data: []byte(online)}}
		if name == "not there" {
			root = fstest.MapFS{}
		}
		if top, err := Read(root); err == nil {
			t.Errorf("%s: got %v, want an error", name, top)
		}
	}
}

// The machine that the test runs on.
func TestReadHere(t *testing.T) {
	top, err := Read(os.DirFS("/sys"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range top.CPUs {
		if core, ok := top.CPU(c.Core); !ok || core.Core != c.Core {
			t.Errorf("CPU %d is of core %d, which is none", c.ID, c.Core)
		}
	}
}

// Files laid over a machine of two CPUs make it one of four on two nodes.
func TestOverlay(t *testing.T) {
	base := regular("", 1, 2, 1, 1, 1).fs()
	text := "/sys/devices/system/cpu/online: 0-3\n"
	for id := range 4 {
		text += fmt.Sprintf("/sys/devices/system/cpu/cpu%d/node%d/cpulist: ''\n", id, id/2+4)
	}
	root, err := Overlay(base, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	top, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range top.GroupBy(func(c cpuset.CPU) int { return c.NUMA }) {
		got = append(got, fmt.Sprint(g.ID, "=", g.CPUs))
	}
	if diff := cmp.Diff([]string{"4=0-1", "5=2-3"}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"/proc/x: y", "/sys/../etc/x: y", "- a", "/sys/a: [1]"} {
		if _, err := Overlay(base, []byte(bad)); err == nil {
			t.Errorf("the overlay %q is taken", bad)
		}
	}
}

func BenchmarkRead384(b *testing.B) {
	dir := b.TempDir()
	if err := os.CopyFS(dir, models()[0].fs()); err != nil {
		b.Fatal(err)
	}
	root := os.DirFS(dir)
	for b.Loop() {
		if _, err := Read(root); err != nil {
			b.Fatal(err)
		}
	}
}
