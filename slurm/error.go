package slurm

import (
	"errors"
	"fmt"
)

// The kinds of failure. Test for them with errors.Is; Error carries the details.
var (
	// ErrNotFound: no such job, node, partition or reservation.
	ErrNotFound = errors.New("not found")
	// ErrBusy: Slurm can't give the resources now, but may later.
	ErrBusy = errors.New("busy")
	// ErrInvalid: Slurm refuses the request and will refuse it again.
	ErrInvalid = errors.New("invalid request")
	// ErrAuth: the token is missing, expired or not allowed to do this.
	ErrAuth = errors.New("not authorized")
	// ErrUnavailable: no usable answer. Whether a write took effect is unknown.
	ErrUnavailable = errors.New("unavailable")
	// ErrStale: what is known is older than what was asked for (see cache.Cache.Fresh).
	ErrStale = errors.New("stale")
)

// Error is a failed call to Slurm.
type Error struct {
	// Kind is one of this package's Err values.
	Kind error
	// Op is what was tried, and on what, as "submit job \"train\"".
	Op string
	// HTTPStatus is the answer's status, 0 where there was none.
	HTTPStatus int
	// Code is Slurm's error number (slurm_errno.h), 0 where there was none.
	Code int
	// Text is Slurm's own sentence.
	Text string
	// Source is the place in Slurm, such as a function, or in the request that the error is about.
	Source string
	// Err is the underlying error where the call itself failed.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", e.Op, e.Kind)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Code != 0 {
		s += fmt.Sprintf(" (Slurm error %d)", e.Code)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }
