package dracpu

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// conditions are what must hold for the driver to do its work.
type conditions struct {
	connected    bool   // by NRI
	synchronized bool   // the runtime has told of its containers on this connection
	registered   bool   // with kubelet
	published    string // why the slices are not as they should be
	rival        string // who else sets CPUs
	stuck        string // which containers can't be moved off CPUs of others
	runtime      string // name and version of the container runtime
}

// problems says what is wrong, one sentence each.
func (c conditions) problems() []string {
	var out []string
	if !c.connected {
		out = append(out, "the container runtime is not connected by NRI: is NRI on in its configuration?")
	} else if !c.synchronized {
		out = append(out, "the container runtime has not told of its containers yet")
	}
	if !c.registered {
		out = append(out, "kubelet has not registered the driver: does kubeletRootDir fit the kubelet of this node?")
	}
	if c.published != "" {
		out = append(out, "the ResourceSlices are not published: "+c.published)
	}
	if c.stuck != "" {
		out = append(out, c.stuck)
	}
	if c.rival != "" {
		out = append(out, c.rival)
	}
	return out
}

type state struct {
	mu sync.Mutex
	c  conditions
	// began: the driver has come as far as serving kubelet once. From then on it is alive.
	began bool
	// first is closed when the runtime has told of its containers for the first time.
	first chan struct{}
	once  sync.Once
}

func newState() *state { return &state{first: make(chan struct{})} }

func (s *state) set(change func(*conditions)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.c)
	if s.c.synchronized {
		s.once.Do(func() { close(s.first) })
	}
}

func (s *state) get() conditions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

func (s *state) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = true
}

// alive is /healthz: 503 until the start is over, as published. What is missing
// later is not cured by another start; /readyz tells of it.
func (s *state) alive(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	began := s.began
	s.mu.Unlock()
	if !began {
		http.Error(w, "starting: "+strings.Join(s.get().problems(), "; "), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// ready is /readyz: 200 only while a claim could be served.
func (s *state) ready(w http.ResponseWriter, _ *http.Request) {
	if problems := s.get().problems(); len(problems) > 0 {
		http.Error(w, strings.Join(problems, "\n"), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
