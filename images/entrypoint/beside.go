package main

import (
	"fmt"
	"time"
)

// restarts brings back programs that the container doesn't fall with, at longer and longer intervals.
type restarts struct {
	first time.Duration
	next  map[string]time.Duration
	due   chan process
	vital bool // one of the container's programs is
}

func newRestarts(first time.Duration, programs int, vital bool) *restarts {
	return &restarts{first: first, next: map[string]time.Duration{}, due: make(chan process, programs), vital: vital}
}

// later has p started again, and returns after which time.
func (r *restarts) later(p process) time.Duration {
	pause := max(r.first, r.next[p.name])
	r.next[p.name] = min(2*pause, 64*r.first)
	time.AfterFunc(pause, func() { r.due <- p })
	return pause
}

func (s *supervisor) startAgain(p process, alive map[int]process, again *restarts) {
	s.setScore(p.vital)
	pid, err := s.start(p)
	s.setScore(again.vital)
	if err != nil {
		fmt.Fprintf(s.log, "entrypoint: start %s: %v; it is tried again in %s\n", p.name, err, again.later(p))
		return
	}
	alive[pid] = p
}
