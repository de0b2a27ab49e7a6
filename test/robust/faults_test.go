package robust

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// faults is the record of what went wrong, and when.
type faults struct {
	mu    sync.Mutex
	spans []span
}

// list returns those so far.
func (f *faults) list() []span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.spans)
}

// during records a fault while it lasts.
func (f *faults) during(daemon string, killed bool, happens func()) {
	f.mu.Lock()
	i := len(f.spans)
	f.spans = append(f.spans, span{daemon: daemon, killed: killed, from: time.Now()})
	f.mu.Unlock()
	happens()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans[i].to = time.Now()
}

// fault is one thing that goes wrong. strike returns when it is over.
type fault struct {
	name   string
	strike func(t *testing.T, lasting time.Duration)
}

// each returns the killing and the freezing of each process.
func (w *world) each() []fault {
	var out []fault
	for _, p := range append(slices.Concat(w.bridges, w.schedulers), w.admission) {
		out = append(out, w.ofProgram(p)...)
	}
	for _, daemon := range []string{"slurmctld", "slurmrestd"} {
		out = append(out, w.fault("kill", daemon,
			func(t *testing.T) { w.cluster.Kill(t, daemon) }, func(t *testing.T) { w.cluster.Restart(t, daemon) }))
		out = append(out, w.fault("freeze", daemon,
			func(t *testing.T) { w.cluster.Stop(t, daemon) }, func(t *testing.T) { w.cluster.Continue(t, daemon) }))
	}
	return out
}

func (w *world) ofProgram(p *program) []fault {
	return []fault{
		w.fault("kill", p.name, p.kill, p.start),
		w.fault("freeze", p.name, func(t *testing.T) { p.signal(t, syscall.SIGSTOP) }, func(t *testing.T) { p.signal(t, syscall.SIGCONT) }),
	}
}

func (w *world) fault(what, daemon string, begin, end func(*testing.T)) fault {
	return fault{what + " " + daemon, func(t *testing.T, lasting time.Duration) {
		w.faults.during(daemon, what == "kill", func() {
			begin(t)
			pause(lasting)
			end(t)
		})
	}}
}

// pause lets time pass that a fault lasts: it is the fault, not a wait for something.
func pause(d time.Duration) { <-time.After(d) }
