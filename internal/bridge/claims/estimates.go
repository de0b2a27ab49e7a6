package claims

import "sync"

// estimates keeps what nodes offer for claims until their devices change. Thousands of pods
// alike cost one look at each node.
type estimates struct {
	mu   sync.Mutex
	now  uint64
	kept map[string]map[string]estimate
}

// shapes is how many kinds of claims are kept.
const shapes = 200

func (e *estimates) epoch() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *estimates) get(shape, node string) (estimate, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out, ok := e.kept[shape][node]
	return out, ok
}

// put keeps an estimate that was made from what there was at an epoch.
func (e *estimates) put(shape, node string, epoch uint64, v estimate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch != e.now {
		return
	}
	if e.kept == nil || len(e.kept) >= shapes && e.kept[shape] == nil {
		e.kept = map[string]map[string]estimate{}
	}
	if e.kept[shape] == nil {
		e.kept[shape] = map[string]estimate{}
	}
	e.kept[shape][node] = v
}

// forget drops the estimates of some nodes, of all without names.
func (e *estimates) forget(nodes ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now++
	if len(nodes) == 0 {
		e.kept = nil
	}
	for _, of := range e.kept {
		for _, n := range nodes {
			delete(of, n)
		}
	}
}
