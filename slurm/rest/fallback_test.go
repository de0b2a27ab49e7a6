package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// restd is a slurmrestd that may be away, and counts what it is asked.
type restd struct {
	*httptest.Server
	away  atomic.Bool
	asked atomic.Int32
}

func newRestd(t *testing.T) *restd {
	t.Helper()
	r := &restd{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.asked.Add(1)
		if r.away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answerJSON(w, 200, noStates)
	}))
	t.Cleanup(r.Close)
	return r
}

func TestFallbacks(t *testing.T) {
	first, second := newRestd(t), newRestd(t)
	var failed, good atomic.Int32
	c, err := New(Config{
		URL: first.URL, Fallbacks: []string{second.URL}, Tokens: StaticToken("t"),
		Observe: func(method string, took time.Duration, err error) {
			if method == "" || took < 0 {
				t.Errorf("a call by %q took %v", method, took)
			}
			if err != nil {
				failed.Add(1)
			} else {
				good.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	read := func() error {
		_, err := c.JobStates(t.Context())
		return err
	}
	if err := read(); err != nil || second.asked.Load() != 0 {
		t.Fatalf("while the first answers: %v, and the second is asked %d times", err, second.asked.Load())
	}
	// A read goes on with the second at once, and stays there.
	first.away.Store(true)
	if err := read(); err != nil {
		t.Fatalf("with the first away: %v", err)
	}
	before := first.asked.Load()
	if err := read(); err != nil || first.asked.Load() != before {
		t.Errorf("then: %v, and the first is asked again", err)
	}
	// A write isn't repeated, but the next call goes to the other one.
	first.away.Store(false)
	second.away.Store(true)
	if err := c.CancelJobs(t.Context(), 1); !errors.Is(err, slurm.ErrUnavailable) {
		t.Errorf("a write to the one that is away: %v", err)
	}
	second.asked.Store(0)
	if err := read(); err != nil || second.asked.Load() != 0 {
		t.Errorf("after it: %v, and the second is asked %d times", err, second.asked.Load())
	}
	if failed.Load() != 1 || good.Load() != 4 {
		t.Errorf("%d calls were seen to fail and %d to succeed, not 1 and 4", failed.Load(), good.Load())
	}
}

func TestBadFallbacks(t *testing.T) {
	for _, c := range []Config{
		{URL: "http://a:1", Fallbacks: []string{"b"}},
		{URL: "http://a:1", Fallbacks: []string{"unix:///x"}},
		{URL: "unix:///x", Fallbacks: []string{"http://a:1"}},
	} {
		c.Tokens = StaticToken("t")
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "to fall back to") {
			t.Errorf("%s and %v: %v", c.URL, c.Fallbacks, err)
		}
	}
}
