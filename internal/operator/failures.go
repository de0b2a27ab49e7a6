package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long a slot waits after a failure: as much longer each time, up to the longest.
const (
	firstDelay   = time.Second
	longestDelay = 15 * time.Minute
)

// failures remembers in which slots of which NodeSets pods came to nothing. It is safe for concurrent use.
type failures struct {
	mu  sync.Mutex
	was map[types.UID]map[string]failure
}

type failure struct {
	delay time.Duration
	last  time.Time
}

// add remembers one more failure.
func (f *failures) add(set types.UID, slot string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.was == nil {
		f.was = map[types.UID]map[string]failure{}
	}
	if f.was[set] == nil {
		f.was[set] = map[string]failure{}
	}
	delay := min(max(firstDelay, 2*f.was[set][slot].delay), longestDelay)
	f.was[set][slot] = failure{delay, now}
}

// notBefore is when each slot that has failed is served again. What is long ago is forgotten.
func (f *failures) notBefore(set types.UID, now time.Time) map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]time.Time{}
	for slot, was := range f.was[set] {
		if now.Sub(was.last) > 2*longestDelay {
			delete(f.was[set], slot)
			continue
		}
		out[slot] = was.last.Add(was.delay)
	}
	return out
}

// forget drops a NodeSet that is gone.
func (f *failures) forget(set types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.was, set)
}
