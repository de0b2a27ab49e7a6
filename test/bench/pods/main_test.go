package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// slurmrestd takes jobs and says that they run, until they are cancelled.
type slurmrestd struct {
	mu        sync.Mutex
	jobs      int
	cancelled []string
}

func (s *slurmrestd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Header.Get("X-SLURM-USER-TOKEN") != "secret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/slurm/v0.0.44/job/submit":
		s.jobs++
		fmt.Fprintf(w, `{"job_id":%d}`, s.jobs)
	case r.URL.Path == "/slurm/v0.0.44/jobs/state/":
		var list []string
		for id := range s.jobs {
			list = append(list, fmt.Sprintf(`{"job_id":%d,"state":["RUNNING"]}`, id+1))
		}
		fmt.Fprintf(w, `{"jobs":[%s]}`, strings.Join(list, ","))
	case r.Method == http.MethodDelete && r.URL.Path == "/slurm/v0.0.44/jobs/":
		var body struct{ Jobs []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		s.cancelled = append(s.cancelled, body.Jobs...)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestBareJobs(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	server := &slurmrestd{}
	listener := httptest.NewServer(server)
	defer listener.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	err := run(t.Context(), []string{"slurm", "-slurm", listener.URL, "-token-file", token, "-count", "30", "-workers", "4"}, &out, &log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	text, ok := strings.CutPrefix(lines[len(lines)-1], "JSON ")
	var got struct {
		Cmd      string
		Jobs     int
		Errors   int
		Complete bool
		Latency  struct{ N int }
	}
	if err := json.Unmarshal([]byte(text), &got); !ok || err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got.Cmd != "slurm" || got.Jobs != 30 || got.Errors != 0 || !got.Complete || got.Latency.N != 30 {
		t.Errorf("%+v\n%s%s", got, out.String(), log.String())
	}
	if len(server.cancelled) != 30 {
		t.Errorf("%d of 30 jobs were cancelled", len(server.cancelled))
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	for args, want := range map[string]string{
		"": "usage:", "nothing": "usage:", "slurm": "slurm needs -slurm", "proxy -target=nowhere": "not a URL",
	} {
		err := run(t.Context(), strings.Fields(args), &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	if err := run(t.Context(), []string{"pods", "-h"}, &bytes.Buffer{}, &bytes.Buffer{}); err != nil {
		t.Errorf("help: %v", err)
	}
}
