package faultserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Options of a Server. The zero value offers all versions to every token.
type Options struct {
	// Versions of the data format that are offered, as "v0.0.45"; v0.0.44 and v0.0.45 by default.
	Versions []string
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// Server is a slurmrestd with the slurmctld behind it. It is safe for concurrent use.
type Server struct {
	now  func() time.Time
	http *http.Server
	pipe *pipeListener

	mu       sync.Mutex
	model    Model
	changed  time.Time
	versions []string
	tokens   []string
	down     bool
	next     map[Call][]Fault
	always   map[Call]Fault
	requests []Request
}

// Request is a call that the server got.
type Request struct {
	Call Call
	// Target is the job, the node or whatever else the URL names; "" for a list.
	Target string
	// Query is the part of the URL behind the question mark.
	Query string
	Token string
	User  string
}

// New starts a server, which runs until the test ends.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Versions == nil {
		o.Versions = []string{"v0.0.44", "v0.0.45"}
	}
	s := &Server{
		now: o.Now, versions: o.Versions, pipe: newPipeListener(),
		model: newModel(o.Now()), changed: o.Now(),
		next: map[Call][]Fault{}, always: map[Call]Fault{},
	}
	s.http = &http.Server{Handler: s}
	var running sync.WaitGroup
	running.Go(func() { s.http.Serve(s.pipe) }) //nolint:errcheck // it ends with ErrServerClosed
	t.Cleanup(func() {
		if err := s.http.Close(); err != nil {
			t.Errorf("close the fault server: %v", err)
		}
		running.Wait()
	})
	return s
}

// Change gives the model to a function that may read and change it. It counts as
// a change of all nodes for those who ask what changed since some time.
func (s *Server) Change(change func(*Model)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.model)
	s.touch()
}

// touch notes that something changed. Slurm's times have whole seconds, so the
// note is for the next one: whoever asked within this second is told too.
func (s *Server) touch() { s.changed = s.now().Add(time.Second) }

// Offer sets the versions of the data format from now on, as an upgrade would.
func (s *Server) Offer(versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = versions
}

// AcceptTokens makes the server refuse all other tokens, with status 511. With none given it takes any.
func (s *Server) AcceptTokens(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = tokens
}

// Crash is slurmctld's end without a chance to save its state, and its new start:
// the given jobs are lost, and their ids will be used again.
func (s *Server) Crash(lost ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range lost {
		delete(s.model.Jobs, id)
		s.model.NextJob = min(s.model.NextJob, id)
	}
	s.model.Since, s.model.Submitted, s.model.Started = s.now(), 0, 0
	s.touch()
}

// Fail makes the next calls of a kind fail, each as one of the faults says.
func (s *Server) Fail(call Call, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[call] = append(s.next[call], faults...)
}

// FailAlways makes all calls of a kind fail until Heal.
func (s *Server) FailAlways(call Call, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always[call] = fault
}

// Heal ends all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.next)
	clear(s.always)
	s.down = false
}

// Down makes the server refuse connections and cut those that are in use, until Heal.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
}

func (s *Server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// Requests returns the calls since the last time, in the order of their arrival, and forgets them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// Count returns how many calls of a kind there are among requests.
func Count(requests []Request, call Call) int {
	n := 0
	for _, r := range requests {
		if call == AnyCall || r.Call == call {
			n++
		}
	}
	return n
}

// fault returns what is to happen to a call, nil for nothing.
func (s *Server) fault(call Call) Fault {
	for _, c := range []Call{call, AnyCall} {
		if queue := s.next[c]; len(queue) > 0 {
			s.next[c] = queue[1:]
			return queue[0]
		}
	}
	for _, c := range []Call{call, AnyCall} {
		if f := s.always[c]; f != nil {
			return f
		}
	}
	return nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := parse(r)
	// All of it first, as slurmrestd does; and net/http sees a client go only after that.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	down, offered := s.down, slices.Contains(s.versions, in.version)
	var fault Fault
	if !down && in.call != "" {
		s.requests = append(s.requests, in.request(r))
		fault = s.fault(in.call)
	}
	s.mu.Unlock()
	e := Exchange{w: w, r: r, in: in, normal: func() Answer {
		if in.call == "" || !offered {
			return unknownURL()
		}
		return s.answer(in, r, body)
	}}
	switch {
	case down:
		e.Reset()
	case fault != nil:
		fault(e)
	default:
		e.Answer(e.Normal())
	}
}

// Fault answers a call in another way than Slurm would.
type Fault func(Exchange)

// Exchange is a call that waits for its answer.
type Exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	in     inquiry
	normal func() Answer
}

// Context ends when the client is gone.
func (e Exchange) Context() context.Context { return e.r.Context() }

// Normal returns the right answer. A call changes the model now, and not before.
func (e Exchange) Normal() Answer { return e.normal() }

// Answer sends an answer.
func (e Exchange) Answer(a Answer) { a.write(e.w) }

// Reset ends the connection without an answer.
func (e Exchange) Reset() {
	c, _, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	abort(c)
}
