package view

import (
	"slices"
	"strings"
)

// States returns the names of all states of lines of the queue.
func States() []string {
	all := []State{StateNeedsAction, StateEnding, StateRunning, StateStarting, StateWaiting, StateEnded}
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}

// Filter chooses lines of the queue; empty fields choose all.
type Filter struct {
	// Namespace is that of their pods. A job without pods is in none.
	Namespace, User string
	States          []string
}

// Of returns the lines that the filter chooses.
func (f Filter) Of(items []Item) []Item {
	return slices.DeleteFunc(items, func(i Item) bool {
		inside := f.Namespace == "" || slices.ContainsFunc(i.Pods, func(p string) bool { return strings.HasPrefix(p, f.Namespace+"/") })
		return !inside || f.User != "" && i.User != f.User || len(f.States) > 0 && !slices.Contains(f.States, string(i.State))
	})
}
