package slurm

import (
	"context"
	"time"
)

// Reservation is a reservation as slurmctld knows it.
type Reservation struct {
	Name, Partition string
	// Nodes is a hostlist expression.
	Nodes                   string
	NodeCount, CoreCount    int
	Features, Licenses      string
	TRES                    string
	Users, Accounts, Groups []string
	// Flags are Slurm's words, as MAINT and IGNORE_JOBS.
	Flags              []string
	StartTime, EndTime time.Time
	// MaxStartDelay is how long a job outside may be delayed by one inside.
	MaxStartDelay time.Duration
	// PurgeAfter is how long the reservation may be idle until it is removed, if it has the flag PURGE_COMP.
	PurgeAfter time.Duration
}

// ReservationRequest describes a reservation to create or a change of one. Zero fields are left to Slurm.
type ReservationRequest struct {
	Name, Partition      string
	Nodes                []string
	NodeCount, CoreCount Number
	Features             string
	Licenses             []string
	// Users, Accounts and Groups may use it. A new one needs users or accounts, or groups.
	Users, Accounts, Groups []string
	// Flags are Slurm's words. In a change, one with NO_ in front takes a flag away.
	Flags              []string
	StartTime, EndTime time.Time
	// Duration is in minutes; it stands in for EndTime.
	Duration Number
	Comment  string
}

// Reservations reads and writes reservations.
type Reservations interface {
	Reservations(ctx context.Context) ([]Reservation, error)
	Reservation(ctx context.Context, name string) (Reservation, error)
	// CreateReservation fails with ErrInvalid if there is one of that name.
	CreateReservation(ctx context.Context, r ReservationRequest) error
	// UpdateReservation fails with ErrNotFound if there is none of that name.
	UpdateReservation(ctx context.Context, name string, r ReservationRequest) error
	DeleteReservation(ctx context.Context, name string) error
}
