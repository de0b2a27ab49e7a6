package dialect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slinky-hpc/slinky/slurm"
)

// slowStates reads an answer to jobs/state/ like any other list.
func slowStates(text []byte) ([]slurm.JobState, Reply, error) {
	var out []slurm.JobState
	rep, err := List(bytes.NewReader(text), "jobs", func(s stateOnly) error {
		id, part, err := splitID(s.JobID)
		out = append(out, slurm.JobState{ID: id, Part: part, States: slurm.StatesOf(s.State...)})
		return err
	})
	return out, rep, err
}

func TestJobStates(t *testing.T) {
	text := `{"jobs":[{"job_id":"1","state":["RUNNING"]},{"job_id":"2","state":["RUNNING","COMPLETING"]},` +
		`{"job_id":"3_14","state":["PENDING"]},{"job_id":"4+1","state":["RUNNING"]},{"job_id":"4294967295","state":[]}],` +
		`"last_update":{"set":true,"infinite":false,"number":7},"errors":[{"error_number":5,"error":"no"}]}`
	if _, _, ok := scanStates([]byte(text)); !ok {
		t.Error("slurmrestd's own form is read the slow way")
	}
	got, rep, err := JobStates(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	want := []slurm.JobState{
		{ID: 1, States: slurm.StatesOf("RUNNING")},
		{ID: 2, States: slurm.StatesOf("RUNNING", "COMPLETING")},
		{ID: 3, Part: "_14", States: slurm.StatesOf("PENDING")},
		{ID: 4, Part: "+1", States: slurm.StatesOf("RUNNING")},
		{ID: 4294967295, States: slurm.States{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if !rep.Listed || rep.LastUpdate.Unix() != 7 || len(rep.Errors) != 1 {
		t.Errorf("reply %+v", rep)
	}
}

// seeds are answers of a real slurmrestd, and what it would never send.
func seeds(t testing.TB) [][]byte {
	recorded, err := filepath.Glob("../testdata/*/states.http")
	if err != nil || len(recorded) < 2 {
		t.Fatalf("recorded answers: %v, %v", recorded, err)
	}
	var out [][]byte
	for _, file := range recorded {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := bytes.Cut(text, []byte("\r\n\r\n"))
		if !ok {
			_, body, ok = bytes.Cut(text, []byte("\n\n"))
		}
		if _, _, fast := scanStates(bytes.TrimSpace(body)); !ok || !fast {
			t.Errorf("%s is read the slow way", file)
		}
		out = append(out, bytes.TrimSpace(body))
	}
	for _, s := range []string{
		``, `{}`, `null`, `{"jobs":null}`, `{"jobs":[]}`, `{"jobs":[`, `{"jobs":[]`, `{"jobs":[],"jobs":[{"job_id":"1","state":["A"]}]}`,
		`{"errors":[],"jobs":[{"job_id":"1","state":["A"]}]}`,
		`{"jobs":[{"job_id":"1","state":["A"]},]}`, `{"jobs":[{"job_id":"1","state":["A"]}{"job_id":"2","state":["A"]}]}`,
		`{"jobs":[{"job_id":"1","state":["A"]},{"job_id":"2","st`, `{"jobs":[{"job_id":"","state":["A"]}]}`,
		`{"jobs":[{"job_id":"4294967296","state":["A"]}]}`, `{"jobs":[{"job_id":"99999999999999999999","state":["A"]}]}`,
		`{"jobs":[{"job_id":"1x","state":["A"]}]}`, `{"jobs":[{"job_id":"1_\u0041","state":["A"]}]}`,
		`{"jobs":[{"job_id":"1","state":"A,B"}]}`, `{"jobs":[{"job_id":"1","state":null}]}`, `{"jobs":[{"job_id":"1","state":["A}\"]"]}]}`,
		`{"jobs":[{"job_id":"1","state":["A"],"more":{}}]}`, `{"jobs":[{"job_id":1,"state":["A"]}]}`, `{"jobs": [ {"job_id": "1", "state": ["A"]} ]}`,
		`{"jobs":[{"job_id":"1","state":[""]},{"job_id":"1_[1-3%2]","state":["a"]}],"warnings":[{"description":"w"}]} trailing`,
	} {
		out = append(out, []byte(s))
	}
	return out
}

// FuzzJobStates holds the quick way against the slow one.
func FuzzJobStates(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, wantReply, wantErr := slowStates(text)
		got, reply, err := JobStates(bytes.NewReader(text))
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("entries (-slow +quick):\n%s", diff)
		}
		if diff := cmp.Diff(wantReply, reply); diff != "" {
			t.Errorf("reply (-slow +quick):\n%s", diff)
		}
	})
}

// BenchmarkJobStates100k reads the states of 100,000 jobs, both ways.
func BenchmarkJobStates100k(b *testing.B) {
	text := []byte(statesOpen)
	for i := range 100_000 {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"job_id":"%d","state":["RUNNING"]}`, i+1)
	}
	text = append(text, `],"errors":[],"warnings":[]}`...)
	for name, read := range map[string]func() ([]slurm.JobState, Reply, error){
		"quick": func() ([]slurm.JobState, Reply, error) { return JobStates(bytes.NewBuffer(text)) },
		"slow":  func() ([]slurm.JobState, Reply, error) { return slowStates(text) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if states, _, err := read(); err != nil || len(states) != 100_000 {
					b.Fatal(len(states), err)
				}
			}
		})
	}
}
