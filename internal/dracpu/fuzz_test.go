package dracpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
)

// Whatever is in the checkpoint or in a claim's CDI file, the driver starts, and what it
// has taken over is in order: no CPU is two claims'.
func FuzzStart(f *testing.F) {
	good := []byte(`{"version":1,"checksum":"sha256:7b41","data":{"bootID":"boot","claims":[{"uid":"a","grants":[{"request":"cpu","cpus":"0-1"}]}]}}`)
	f.Add(good, []byte(`{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{"name":"claim-a","containerEdits":{"env":["DRA_CPUSET_a=2-3"]}}]}`))
	f.Add([]byte(`{`), []byte(`{"devices":[{"name":"claim-a","annotations":{"dra.cpu/memory":"[{\"node\":1,\"bytes\":5}]"},"containerEdits":{"env":["DRA_MEMSET_a=1"]}}]}`))
	f.Add([]byte(`null`), []byte(`{"devices":[{}]}`))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, checkpoint, cdi []byte) {
		d := newDisk(t)
		l := newLedger(d.data, d.cdi, "boot", numa(8, ""), 0)
		for name, data := range map[string][]byte{l.checkpoint.path: checkpoint, cdiPath(d.cdi, "a"): cdi} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.load(logr.Discard()); err != nil {
			t.Fatal(err)
		}
		checkBooks(t, l)
		again := newLedger(d.data, d.cdi, "boot", numa(8, ""), 0)
		if err := again.load(logr.Discard()); err != nil || len(again.claims) != len(l.claims) {
			t.Errorf("%d claims, and after a restart %d, %v", len(l.claims), len(again.claims), err)
		}
	})
}

// The same for what a checkpoint with a right checksum says.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"bootID":"boot","claims":[{"uid":"a","grants":[{"cpus":"0-1"}]},{"uid":"b","grants":[{"cpus":"1"}]}]}`))
	f.Add([]byte(`{"claims":[null,{"uid":"../../x","grants":[]},{"grants":[{"cpus":"0","memory":{"node":-5}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDisk(t)
		l := newLedger(d.data, d.cdi, "boot", numa(8, ""), 0)
		text := append([]byte(`{"version":1,"checksum":"`+checksum(data)+`","data":`), append(data, '}')...)
		if err := os.WriteFile(l.checkpoint.path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.load(logr.Discard()); err != nil {
			t.Fatal(err)
		}
		checkBooks(t, l)
		if files, err := filepath.Glob(filepath.Join(filepath.Dir(d.cdi), "*")); err != nil || len(files) != 2 {
			t.Errorf("files beside the folders: %v, %v", files, err)
		}
	})
}
