package dracpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// CPU check 52.
func TestPrepareIsIdempotent(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	if got := prepared(t, l, on("a", 0, 2, "")); got != "0-1" {
		t.Errorf("got %s", got)
	}
	for range 2 {
		if got := prepared(t, l, on("a", 0, 2, "")); got != "0-1" {
			t.Errorf("again: got %s", got)
		}
		l = d.start(t, "boot", numa(8, "")) // and after a restart
	}
	file, err := os.ReadFile(filepath.Join(d.cdi, "dra.k8s.io-cpu_claim-a.json"))
	want := `{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{"name":"claim-a","containerEdits":{"env":["DRA_CPUSET_a=0-1"]}}],"containerEdits":{}}`
	if err != nil || string(file) != want {
		t.Errorf("the CDI file is\n%s, %v; want\n%s", file, err, want)
	}
}

// CPU check 52.
func TestPrepareRefuses(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, "0"))
	prepared(t, l, on("a", 1, 2, "5-6"))
	changed := on("a", 0, 2, "")
	unallocated := on("a", 0, 2, "")
	unallocated.Status.Allocation = nil
	other := on("b", 0, 1, "")
	other.Status.Allocation.Devices.Results[0].Pool = "node-2"
	for want, rc := range map[string]*resourceapi.ResourceClaim{
		"already belong to claim default/claim-a": on("b", 1, 2, "6-7"),
		"2 are free":                     on("b", 1, 3, ""),
		"reserved CPUs: 0":               on("b", 0, 1, "0"),
		"is allocated cpu=cpudevnuma000": changed,
		"not allocated":                  unallocated,
		"another node":                   other,
	} {
		if c, err := prepareOne(l, rc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v; want an error with %q", c, err, want)
		}
	}
	if diff := cmp.Diff(map[types.UID]string{"a": "5-6"}, l.all()); diff != "" {
		t.Errorf("refusals leave traces (-want +got):\n%s", diff)
	}
	l.minShared = 4
	if _, err := prepareOne(l, on("c", 0, 2, "")); err == nil || !strings.Contains(err.Error(), "minSharedCPUs is 4") {
		t.Errorf("the shared CPUs are taken: %v", err)
	}
}

// A disk that fails at any step leaves no trace, and later it works.
// CPU check 52.
func TestPrepareIsAtomic(t *testing.T) {
	for _, broken := range []string{"data", "cdi"} {
		d := newDisk(t)
		l := d.start(t, "boot", numa(8, ""))
		dir := map[string]string{"data": d.data, "cdi": d.cdi}[broken]
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := prepareOne(l, on("a", 0, 2, "")); err == nil {
			t.Fatalf("%s: it works without its folder", broken)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		if len(l.all()) != 0 {
			t.Errorf("%s: the ledger has %v", broken, l.all())
		}
		if left := d.start(t, "boot", numa(8, "")).all(); len(left) != 0 {
			t.Errorf("%s: after a restart there are %v", broken, left)
		}
		if got := prepared(t, l, on("b", 0, 4, "")); got != "0-3" {
			t.Errorf("%s: got %s", broken, got)
		}
	}
}

// The claims of one call: one that fails hinders no other, and leaves no trace.
// CPU check 14.
func TestPrepareTogether(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	foreign := on("foreign", 0, 1, "")
	foreign.Status.Allocation.Devices.Results[0].Driver = "gpu.example.com"
	// A folder in the place of its file.
	if err := os.Mkdir(cdiPath(d.cdi, "nofile"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	claims := []*resourceapi.ResourceClaim{on("a", 0, 2, "1-2"), on("b", 0, 2, "2-3"), foreign, on("nofile", 1, 4, ""), on("c", 0, 1, "")}
	for i, o := range l.prepare(nil, claims...) {
		switch name := string(claims[i].UID); {
		case o.err != nil && o.claim == nil:
			got[name] = "error"
		case o.claim != nil && o.err == nil:
			got[name] = o.claim.cpus().String()
		case o.err == nil:
			got[name] = "nothing"
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "1-2", "b": "error", "foreign": "nothing", "nofile": "error", "c": "0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(cdiPath(d.cdi, "nofile")); err != nil {
		t.Fatal(err)
	}
	want := map[types.UID]string{"a": "1-2", "c": "0"}
	for name, l := range map[string]*ledger{"now": l, "after a restart": d.start(t, "boot", numa(8, ""))} {
		if diff := cmp.Diff(want, l.all()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if failed := l.unprepare("a", "unknown", "c"); len(failed) > 0 || len(l.all()) > 0 || len(d.start(t, "boot", numa(8, "")).all()) > 0 {
		t.Errorf("not given back: %v, %v", failed, l.all())
	}
}

// CPU checks 18, 52 and 64.
func TestUnprepare(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	prepared(t, l, on("a", 0, 4, ""))
	for range 2 { // the second time it isn't known any more
		if err := l.unprepare("a")["a"]; err != nil {
			t.Fatal(err)
		}
	}
	if got := prepared(t, d.start(t, "boot", numa(8, "")), on("b", 0, 4, "")); got != "0-3" {
		t.Errorf("got %s", got)
	}
	// While the checkpoint can't be written the CPUs stay taken.
	l = d.start(t, "boot", numa(8, ""))
	if err := os.Rename(d.data, d.data+".away"); err != nil {
		t.Fatal(err)
	}
	if err := l.unprepare("b")["b"]; err == nil {
		t.Error("it is given back without its folder")
	}
	if diff := cmp.Diff(map[types.UID]string{"b": "0-3"}, l.all()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// CPU checks 12, 13, 53, 60 and 65.
func TestStart(t *testing.T) {
	before := map[types.UID]string{"a": "0-1", "b": "4-6"}
	for name, x := range map[string]struct {
		change func(t *testing.T, d disk)
		boot   string
		m      cpuset.Machine
		want   map[types.UID]string
	}{
		"nothing changed":      {m: numa(8, ""), want: before},
		"other reserved CPUs":  {m: numa(8, "0,4"), want: before},
		"fewer CPUs":           {m: numa(4, ""), want: before},
		"a new boot":           {boot: "later", m: numa(8, ""), want: map[types.UID]string{}},
		"no checkpoint":        {change: removeFile("checkpoint.json"), m: numa(8, ""), want: before},
		"a damaged checkpoint": {change: damage("checkpoint.json", `"0-1"`, `"0-2"`), m: numa(8, ""), want: before},
		"half a checkpoint":    {change: truncate("checkpoint.json"), m: numa(8, ""), want: before},
		"no CDI file":          {change: removeFile("../cdi/dra.k8s.io-cpu_claim-a.json"), m: numa(8, ""), want: before},
		"half a CDI file":      {change: truncate("../cdi/dra.k8s.io-cpu_claim-b.json"), m: numa(8, ""), want: before},
		"an empty CDI file":    {change: empty("../cdi/dra.k8s.io-cpu_claim-a.json"), m: numa(8, ""), want: before},
		// A crash of the machine may leave anything of the files, and nobody has what they say.
		"a new boot, an empty checkpoint and no CDI files": {change: func(t *testing.T, d disk) {
			empty("checkpoint.json")(t, d)
			removeFile("../cdi/dra.k8s.io-cpu_claim-a.json")(t, d)
			removeFile("../cdi/dra.k8s.io-cpu_claim-b.json")(t, d)
		}, boot: "later", m: numa(8, ""), want: map[types.UID]string{}},
		"a new boot and an empty CDI file": {
			change: empty("../cdi/dra.k8s.io-cpu_claim-a.json"), boot: "later", m: numa(8, ""), want: map[types.UID]string{},
		},
		"a CDI file that says otherwise": {
			change: damage("../cdi/dra.k8s.io-cpu_claim-b.json", "4-6", "0-3"), m: numa(8, ""), want: before,
		},
		"no checkpoint and half a CDI file": {
			change: func(t *testing.T, d disk) {
				removeFile("checkpoint.json")(t, d)
				truncate("../cdi/dra.k8s.io-cpu_claim-b.json")(t, d)
			}, m: numa(8, ""), want: map[types.UID]string{"a": "0-1"},
		},
		"somebody else's CDI files": {change: func(t *testing.T, d disk) {
			write(t, filepath.Join(d.cdi, "nvidia.com-gpu.json"), `{"cdiVersion":"0.8.0","kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`)
			write(t, filepath.Join(d.cdi, "dra.cpu_metadata_a_cpu.json"), `{`)
		}, m: numa(8, ""), want: before},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			l := d.start(t, "boot", numa(8, ""))
			prepared(t, l, on("a", 0, 2, ""))
			prepared(t, l, on("b", 1, 3, ""))
			if x.change != nil {
				x.change(t, d)
			}
			boot := "boot"
			if x.boot != "" {
				boot = x.boot
			}
			for range 2 { // the second start finds what the first has written
				l = d.start(t, boot, x.m)
				if diff := cmp.Diff(x.want, l.all()); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
				if got := l.shared(); got.Overlaps(union(l.all())) {
					t.Errorf("shared are %s, of which claims have some: %v", got, l.all())
				}
			}
			files, broken := readCDI(d.cdi)
			if len(files) != len(x.want) || len(broken) > 0 && !strings.Contains(name, "no checkpoint") {
				t.Errorf("%d CDI files, want %d; %v", len(files), len(x.want), broken)
			}
		})
	}
}

func union(claims map[types.UID]string) cpuset.Set {
	var s cpuset.Set
	for _, list := range claims {
		s = s.Union(set(list))
	}
	return s
}

func removeFile(name string) func(*testing.T, disk) {
	return func(t *testing.T, d disk) {
		if err := os.Remove(filepath.Join(d.data, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func empty(name string) func(*testing.T, disk) {
	return func(t *testing.T, d disk) { write(t, filepath.Join(d.data, name), "") }
}

func truncate(name string) func(*testing.T, disk) {
	return func(t *testing.T, d disk) {
		path := filepath.Join(d.data, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
}

func damage(name, old, with string) func(*testing.T, disk) {
	return func(t *testing.T, d disk) {
		path := filepath.Join(d.data, name)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), old) {
			t.Fatalf("%s has no %s: %s, %v", name, old, text, err)
		}
		write(t, path, strings.ReplaceAll(string(text), old, with))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A claim of two requests has a CDI device for each, and kept apart after a restart from these files alone.
// CPU check 37.
func TestSeveralRequests(t *testing.T) {
	d := newDisk(t)
	l := d.start(t, "boot", numa(8, ""))
	rc := on("a", 0, 2, "")
	second := on("x", 1, 1, "").Status.Allocation.Devices.Results[0]
	second.Request = "more"
	rc.Status.Allocation.Devices.Results = append(rc.Status.Allocation.Devices.Results, second)
	prepared(t, l, rc)
	removeFile("checkpoint.json")(t, d)
	l = d.start(t, "boot", numa(8, ""))
	c, err := prepareOne(l, rc)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, name := range c.requests() {
		got[name] = cdiName("a", i) + "=" + c.cpusOf(i).String()
	}
	if diff := cmp.Diff(map[string]string{"cpu": "claim-a_0=0-1", "more": "claim-a_1=4"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte(`{"version":1,"checksum":"x","data":{"claims":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "checkpoint.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readCheckpoint(path); err == nil && !strings.Contains(string(text), "sha256:") {
			t.Errorf("%q is taken", text)
		}
	})
}
