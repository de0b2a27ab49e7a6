package exporter

import (
	"context"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// reading reads parts of Slurm's state, and notes how that went. What can't be read now isn't
// shown: it may be otherwise by now.
type reading struct {
	*Exporter
	ctx context.Context
}

func fetch[T any](r reading, what string, get func(context.Context) (T, error)) (out T, ok bool) {
	began := time.Now()
	out, err := get(r.ctx)
	r.took.WithLabelValues(what).Set(time.Since(began).Seconds())
	if err == nil {
		r.good.WithLabelValues(what).Set(when(r.Now()))
		return out, true
	}
	if r.ctx.Err() == nil {
		r.failures.WithLabelValues(what).Inc()
		r.Log.Error(err, "Can't read a part of Slurm's state", "what", what)
	}
	var nothing T
	return nothing, false
}

// read reads what the view doesn't hold.
func (e *Exporter) read(ctx context.Context) {
	r := reading{e, ctx}
	var f Facts
	f.Partitions, _ = fetch(r, "partitions", e.Slurm.Partitions)
	f.Reservations, _ = fetch(r, "reservations", e.Slurm.Reservations)
	f.Licenses, _ = fetch(r, "licenses", e.Slurm.Licenses)
	f.Controllers, _ = fetch(r, "controllers", e.Slurm.Ping)
	if diag, ok := fetch(r, "statistics", e.Slurm.Diag); ok {
		f.Diag = &diag
	}
	e.note(func(slow *Facts) {
		f.Shares, f.Associations = slow.Shares, slow.Associations
		*slow = f
	})
}

// readAccounting reads shares from slurmctld and limits from slurmdbd. A cluster without accounting has no
// shares, and nobody to ask for limits.
func (e *Exporter) readAccounting(ctx context.Context) {
	r := reading{e, ctx}
	shares, _ := fetch(r, "shares", e.Slurm.Shares)
	var limits []slurm.Association
	if len(shares) > 0 {
		limits, _ = fetch(r, "limits", func(ctx context.Context) ([]slurm.Association, error) {
			return e.Slurm.Associations(ctx, slurm.AssociationFilter{Clusters: []string{shares[0].Cluster}})
		})
	}
	e.note(func(slow *Facts) { slow.Shares, slow.Associations = shares, limits })
}

func (e *Exporter) note(change func(*Facts)) {
	e.mu.Lock()
	change(&e.slow)
	e.mu.Unlock()
	e.dirty.Store(true)
}
