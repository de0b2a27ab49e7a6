package sysfs

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// What is read from the files of many machines.
// CPU checks 4, 42, 43, 55 and 62.
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

// A machine says the same without the lists that spare most of the reading, and as an overlay, where each CPU is asked itself.
func TestReadWithoutLists(t *testing.T) {
	for _, m := range models() {
		want, err := Read(m.fs())
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		plain := m
		plain.noLists = true
		for how, root := range map[string]fs.FS{"without lists": plain.fs(), "as an overlay": m.fs().overlay} {
			got, err := Read(root)
			if err != nil {
				t.Fatalf("%s %s: %v", m.name, how, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", m.name, how, diff)
			}
		}
	}
}

// What is chosen on these machines is as many as asked for, of the free ones; and all of a core, a cache or a node where that is free.
func TestPickOnMachines(t *testing.T) {
	for _, m := range models() {
		top, err := Read(m.fs())
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		r := rand.New(rand.NewPCG(2, uint64(len(top.CPUs))))
		for range 20 {
			free := top.All()
			for _, c := range top.CPUs {
				if r.IntN(4) == 0 {
					free = free.Minus(cpuset.Of(c.ID))
				}
			}
			n := 1 + r.IntN(max(free.Len(), 1))
			if n > free.Len() {
				continue
			}
			got, err := cpuset.Pick(top, free, n)
			if err != nil || got.Len() != n || !got.Within(free) {
				t.Fatalf("%s: %d of %s: %s, %v", m.name, n, free, got, err)
			}
		}
		for _, level := range []func(cpuset.CPU) int{func(c cpuset.CPU) int { return c.Core }, func(c cpuset.CPU) int { return c.L3 }, func(c cpuset.CPU) int { return c.NUMA }} {
			for _, g := range top.GroupBy(level) {
				if g.ID < 0 {
					continue
				}
				if got, err := cpuset.Pick(top, g.CPUs, g.CPUs.Len()); err != nil || !got.Equal(g.CPUs) {
					t.Errorf("%s: all of %s: %s, %v", m.name, g.CPUs, got, err)
				}
			}
		}
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
		{"L2", func(c cpuset.CPU) int { return c.L2 }},
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
	for _, m := range top.Memory {
		fmt.Fprintf(&out, "  memory of node %d: %d GiB\n", m.Node, m.Bytes>>30)
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
	for name, content := range models()[0].fs().files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	root, before := os.DirFS(dir), processor(b)
	for b.Loop() {
		if _, err := Read(root); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processor(b)-before).Seconds()/float64(b.N), "cpu-sec/op")
	counted := &counter{FS: root}
	if _, err := Read(counted); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(counted.opened), "files/op")
}

// processor is the time that this process has had.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counter counts the files and folders that are opened.
type counter struct {
	fs.FS
	opened int
}

func (c *counter) Open(name string) (fs.File, error) {
	c.opened++
	return c.FS.Open(name)
}
