package cache

import (
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// words keeps one copy of each text that many records have, since a record's
// own texts would be the greater part of a large cache. It may forget at any
// time: then some texts are there twice.
type words struct {
	texts map[string]string
	sets  map[string][]string
}

const (
	maxWords = 50_000
	// A longer text is seldom another job's too.
	maxWordLength = 200
)

func newWords() words { return words{texts: map[string]string{}, sets: map[string][]string{}} }

func (w *words) text(s *string) {
	if *s == "" || len(*s) > maxWordLength {
		return
	}
	if known, ok := w.texts[*s]; ok {
		*s = known
		return
	}
	if len(w.texts) >= maxWords {
		clear(w.texts)
	}
	w.texts[*s] = *s
}

func (w *words) set(s *[]string) {
	if len(*s) == 0 {
		return
	}
	key := strings.Join(*s, "\x00")
	if known, ok := w.sets[key]; ok {
		*s = known
		return
	}
	if len(w.sets) >= maxWords {
		clear(w.sets)
	}
	w.sets[key] = *s
}

// job shares the texts of a record that is to be kept. Records in the cache are
// never changed, and readers get copies.
func (w *words) job(j *slurm.Job) {
	for _, s := range []*string{
		&j.User, &j.Group, &j.Account, &j.Partition, &j.QOS, &j.Reservation, &j.Cluster, &j.Reason,
		&j.Nodes, &j.ScheduledNodes, &j.Licenses, &j.TRESRequested, &j.TRESAllocated,
		&j.Asked.Constraints, &j.Asked.RequiredNodes, &j.Asked.ExcludedNodes,
		&j.Asked.TRESPerJob, &j.Asked.TRESPerNode, &j.Asked.TRESPerSocket, &j.Asked.TRESPerTask,
	} {
		w.text(s)
	}
	w.set((*[]string)(&j.States))
	w.set(&j.Flags)
}
