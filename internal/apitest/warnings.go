package apitest

import (
	"strings"
	"sync"
)

// Warnings collects what an API server says beside its answers. It is a rest.WarningHandler.
type Warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader keeps text.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// Take returns what was said since the last call, a line each.
func (w *Warnings) Take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.said, "\n")
	w.said = nil
	return out
}
