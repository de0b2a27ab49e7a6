// Package worldstest takes facts the way of a snapshot's file, for tests of what a file keeps and what it must not hold.
package worldstest

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/slinky-hpc/slinky/internal/observe/worlds"
	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// ThroughFile writes an administrator's facts as a snapshot and returns what is read back. It fails the test where a right
// was missing to read all, and where the file's text holds any of the secrets.
func ThroughFile(t testing.TB, f view.Facts, secrets ...string) view.Facts {
	t.Helper()
	for _, text := range f.NotInFile() {
		t.Errorf("an administrator lacks something: %s", text)
	}
	var file bytes.Buffer
	if err := worlds.Write(&file, f); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if at := bytes.Index(text, []byte(secret)); at >= 0 {
			t.Fatalf("a secret is in the file: %s", text[max(0, at-300):min(len(text), at+100)])
		}
	}
	read, err := worlds.Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	return read
}
