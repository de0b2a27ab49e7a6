package rest

import (
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// Numbers from slurm_errno.h that callers may want to tell apart.
const (
	codeUnspecified   = -1
	codeAuth          = 1007 // protocol authentication error
	codeAccessDenied  = 2002
	codeInvalidUser   = 2010
	codePriority      = 2013 // another job goes first
	codePartitionBusy = 2015
	codeNodesBusy     = 2016
	codeNoJob         = 2017
	codeNoNode        = 2018
	codeAlreadyDone   = 2021
	codeNoReservation = 2053
	codeJobFinished   = 2084
	codeDeferred      = 2125 // SchedulerParameters=defer
	codeNoResult      = 9000 // the one named thing isn't there
)

// kindOf returns the kind of failure for Slurm's number and the HTTP status.
// The number is the more exact of the two: one status stands for many numbers.
func kindOf(op call, status, code int) error {
	switch code {
	case codeAuth, codeAccessDenied, codeInvalidUser:
		return slurm.ErrAuth
	case codePriority, codePartitionBusy, codeNodesBusy, codeDeferred:
		return slurm.ErrBusy
	case codeNoJob, codeNoNode, codeNoReservation:
		return slurm.ErrNotFound
	case codeNoResult:
		if op.single {
			return slurm.ErrNotFound
		}
		return slurm.ErrInvalid
	case codeUnspecified:
		// A node line with a key that this slurmctld doesn't know; elsewhere, slurmctld stalls.
		if op.nodeLine {
			return slurm.ErrInvalid
		}
		return slurm.ErrUnavailable
	}
	switch status {
	case 401, 403, 511:
		return slurm.ErrAuth
	case 404:
		return slurm.ErrNotFound
	case 502, 503, 504:
		return slurm.ErrUnavailable
	}
	switch {
	case code >= 1000 && code < 2000, code >= 5000 && code < 6000, code >= 7000 && code < 8000:
		return slurm.ErrUnavailable // transport, sockets, database connection
	case code != 0 || status == 400 || status == 422:
		return slurm.ErrInvalid
	}
	return slurm.ErrUnavailable
}

// failure makes the error of an answer, nil where the answer is a success.
func failure(op call, status int, rep dialect.Reply) *slurm.Error {
	if status == 200 && op.creates && rep.JobID != 0 {
		return nil // the job exists: what stands in errors is a note, say, that it is held
	}
	if status == 200 && len(rep.Errors) == 0 {
		return nil
	}
	e := &slurm.Error{Op: op.name, HTTPStatus: status}
	for _, p := range rep.Errors {
		if e.Code == 0 {
			e.Code, e.Text, e.Source = p.Code, p.Text, p.Source
		}
	}
	switch {
	case len(rep.Errors) == 0:
		e.Kind, e.Text = slurm.ErrUnavailable, "the answer isn't Slurm's" // but that of something between
	case op.single && e.Code == 0 && (status == 200 || status == 404) && !rep.Listed:
		e.Kind = slurm.ErrNotFound // so is an unknown node told: status 200, error 0, no list
	default:
		e.Kind = kindOf(op, status, e.Code)
	}
	return e
}

// plainFailure makes the error of an answer that isn't JSON.
func plainFailure(op call, status int, body []byte) *slurm.Error {
	text := strings.TrimSpace(string(body))
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	e := &slurm.Error{Op: op.name, HTTPStatus: status, Text: strings.ToValidUTF8(text, "?"), Kind: kindOf(op, status, 0)}
	if status == 404 {
		e.Kind = slurm.ErrUnavailable // no such URL: another server, or another version of it
		if op.plugin == database {
			e.Text = "this slurmrestd has no accounting: it runs without slurmdbd or without its plugin openapi/slurmdbd"
		}
	}
	return e
}
