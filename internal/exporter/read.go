package exporter

import (
	"context"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// fetch reads a part of Slurm's state, and notes how that went. What can't be read now isn't shown: it may be
// otherwise by now.
func fetch[T any](ctx context.Context, e *Exporter, what string, get func(context.Context) (T, error)) (out T, ok bool) {
	began := time.Now()
	out, err := get(ctx)
	e.took.WithLabelValues(what).Set(time.Since(began).Seconds())
	if err == nil {
		e.good.WithLabelValues(what).Set(when(e.Now()))
		return out, true
	}
	if ctx.Err() == nil {
		e.failures.WithLabelValues(what).Inc()
		e.Log.Error(err, "Can't read a part of Slurm's state", "what", what)
	}
	var nothing T
	return nothing, false
}

// read reads what the view doesn't hold.
func (e *Exporter) read(ctx context.Context) {
	e.readToken(ctx)
	var f Facts
	f.Partitions, _ = fetch(ctx, e, "partitions", e.Slurm.Partitions)
	f.Reservations, _ = fetch(ctx, e, "reservations", e.Slurm.Reservations)
	f.Licenses, _ = fetch(ctx, e, "licenses", e.Slurm.Licenses)
	f.Controllers, _ = fetch(ctx, e, "controllers", e.Slurm.Ping)
	if diag, ok := fetch(ctx, e, "statistics", e.Slurm.Diag); ok {
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
	shares, _ := fetch(ctx, e, "shares", e.Slurm.Shares)
	var limits []slurm.Association
	if len(shares) > 0 {
		limits, _ = fetch(ctx, e, "limits", func(ctx context.Context) ([]slurm.Association, error) {
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
