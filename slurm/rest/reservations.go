package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

var _ slurm.Reservations = (*Client)(nil)

func readReservations(r dialect.Reader) func(io.Reader) ([]slurm.Reservation, dialect.Reply, error) {
	return r.Reservations
}

// Reservations implements slurm.Reservations.
func (c *Client) Reservations(ctx context.Context) ([]slurm.Reservation, error) {
	list, _, err := read(ctx, c, call{name: "list reservations", path: "reservations/", list: true}, readReservations)
	return list, err
}

// Reservation implements slurm.Reservations.
func (c *Client) Reservation(ctx context.Context, name string) (slurm.Reservation, error) {
	op := call{name: fmt.Sprintf("read reservation %q", name), path: "reservation/" + name, single: true}
	return readOne(ctx, c, op, name, readReservations, func(r slurm.Reservation) bool { return r.Name == name })
}

// CreateReservation implements slurm.Reservations. slurmctld makes no difference
// between creating and changing, so the name is looked up first.
func (c *Client) CreateReservation(ctx context.Context, r slurm.ReservationRequest) error {
	op := call{name: fmt.Sprintf("create reservation %q", r.Name), method: http.MethodPost, path: "reservation"}
	switch _, err := c.Reservation(ctx, r.Name); {
	case err == nil:
		return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "there is one already"}
	case !errors.Is(err, slurm.ErrNotFound):
		return err
	}
	return c.putReservation(ctx, op, r)
}

// UpdateReservation implements slurm.Reservations.
func (c *Client) UpdateReservation(ctx context.Context, name string, r slurm.ReservationRequest) error {
	op := call{name: fmt.Sprintf("update reservation %q", name), method: http.MethodPost, path: "reservation", single: true}
	if _, err := c.Reservation(ctx, name); err != nil {
		return err
	}
	r.Name = name
	return c.putReservation(ctx, op, r)
}

func (c *Client) putReservation(ctx context.Context, op call, r slurm.ReservationRequest) error {
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.Reservation(r) })
	return err
}

// DeleteReservation implements slurm.Reservations.
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	op := call{name: fmt.Sprintf("delete reservation %q", name), method: http.MethodDelete, path: "reservation/" + name, single: true}
	return c.remove(ctx, op, name)
}

// readOne reads one named thing.
func readOne[T any](ctx context.Context, c *Client, op call, name string,
	pick func(dialect.Reader) func(io.Reader) ([]T, dialect.Reply, error), is func(T) bool) (T, error) {
	var none T
	if err := plainName(op, name); err != nil {
		return none, err
	}
	list, rep, err := read(ctx, c, op, pick)
	if err != nil {
		return none, err
	}
	for _, x := range list {
		if is(x) {
			return x, nil
		}
	}
	if len(list) == 0 && slices.ContainsFunc(rep.Warnings, func(p dialect.Problem) bool { return emptyList(p.Text) }) {
		return none, notFound(op) // so slurmdbd's plugin tells it
	}
	return none, foreign(op)
}

// remove deletes one named thing.
func (c *Client) remove(ctx context.Context, op call, name string) error {
	if err := plainName(op, name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, nil)
	return err
}
