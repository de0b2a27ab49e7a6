package rest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// Each version's decoder takes whatever comes: it reads the same each time, or
// says that it can't, and never gives an object without identity. The corpus is
// a real slurmrestd's answers, as they are and cut off.

func FuzzAnswersV0043(f *testing.F) { fuzzAnswers(f, "v0.0.43") }
func FuzzAnswersV0044(f *testing.F) { fuzzAnswers(f, "v0.0.44") }
func FuzzAnswersV0045(f *testing.F) { fuzzAnswers(f, "v0.0.45") }

func fuzzAnswers(f *testing.F, version string) {
	d, err := dialectOf(version)
	if err != nil {
		f.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", version, "*.http"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded answers: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		f.Add(body)
		f.Add(body[:len(body)/2])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		readTwice(t, "pings", body, d.Read.Pings)
		readTwice(t, "resources", body, d.Read.Resources)
		readTwice(t, "partitions", body, d.Read.Partitions)
		readTwice(t, "licenses", body, d.Read.Licenses)
		readTwice(t, "shares", body, d.Read.Shares)
		fuzzAccounting(t, d, body)
		for _, s := range readTwice(t, "states", body, d.Read.JobStates) {
			if s.ID == 0 {
				t.Error("a job state without an id")
			}
		}
		for _, j := range readTwice(t, "jobs", body, d.Read.Jobs) {
			if j.ID == 0 {
				t.Error("a job without an id")
			}
		}
		for _, n := range readTwice(t, "nodes", body, d.Read.Nodes) {
			if n.Name == "" {
				t.Error("a node without a name")
			}
		}
		var first any
		for range 2 {
			diag, _, err := d.Read.Diag(bytes.NewReader(body))
			if again := any([]any{diag, err == nil}); first == nil {
				first = again
			} else if diff := cmp.Diff(first, again); diff != "" {
				t.Errorf("statistics, read twice:\n%s", diff)
			}
		}
		if rep, err := dialect.Envelope(bytes.NewReader(body)); err == nil && len(rep.Errors) > 0 && !rep.Slurm {
			t.Error("errors, and no list of them")
		}
	})
}

// readTwice returns what was read; nothing where it can't be.
func readTwice[T any](t *testing.T, what string, body []byte, read func(io.Reader) ([]T, dialect.Reply, error)) []T {
	t.Helper()
	first, firstReply, firstErr := read(bytes.NewReader(body))
	again, againReply, againErr := read(bytes.NewReader(body))
	if (firstErr == nil) != (againErr == nil) {
		t.Fatalf("%s: read twice: %v, then %v", what, firstErr, againErr)
	}
	if firstErr != nil {
		return nil
	}
	if diff := cmp.Diff([]any{first, firstReply}, []any{again, againReply}); diff != "" {
		t.Errorf("%s, read twice:\n%s", what, diff)
	}
	return first
}

func fuzzAccounting(t *testing.T, d dialect.Dialect, body []byte) {
	t.Helper()
	for _, r := range readTwice(t, "reservations", body, d.Read.Reservations) {
		if r.Name == "" {
			t.Error("a reservation without a name")
		}
	}
	for _, a := range readTwice(t, "accounts", body, d.Read.Accounts) {
		if a.Name == "" {
			t.Error("an account without a name")
		}
	}
	for _, u := range readTwice(t, "users", body, d.Read.Users) {
		if u.Name == "" {
			t.Error("a user without a name")
		}
	}
	for _, a := range readTwice(t, "associations", body, d.Read.Associations) {
		if a.Cluster == "" || a.Account == "" {
			t.Error("an association without a key")
		}
	}
	for _, q := range readTwice(t, "QOS", body, d.Read.QOSes) {
		if q.Name == "" {
			t.Error("a QOS without a name")
		}
	}
}
