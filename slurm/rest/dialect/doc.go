// Package dialect holds what all versions of slurmrestd's data format have in
// common: how numbers, lists and replies are written. A Dialect value is one
// version; packages v0044 and v0045 make them, and package rest uses them.
//
// Reading is tolerant, because slurmrestd's answers don't keep to its own
// OpenAPI document: a number may come as an object, a bare number or text.
// Writing is strict.
package dialect

import (
	"io"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Dialect reads the answers and writes the bodies of one data parser version.
type Dialect struct {
	// Version is the part of the URL, as "v0.0.45".
	Version string
	Read    Reader
	Write   Writer
}

// Reader turns answers into the neutral model. Where a function returns an
// error, what it read so far must not be used.
type Reader struct {
	Pings      func(io.Reader) ([]slurm.Ping, Reply, error)
	JobStates  func(io.Reader) ([]slurm.JobState, Reply, error)
	Jobs       func(io.Reader) ([]slurm.Job, Reply, error)
	Resources  func(io.Reader) ([]slurm.NodeAllocation, Reply, error)
	Nodes      func(io.Reader) ([]slurm.Node, Reply, error)
	Partitions func(io.Reader) ([]slurm.Partition, Reply, error)
	Diag       func(io.Reader) (slurm.Diag, Reply, error)
	Licenses   func(io.Reader) ([]slurm.License, Reply, error)
	Shares     func(io.Reader) ([]slurm.Share, Reply, error)

	Reservations func(io.Reader) ([]slurm.Reservation, Reply, error)
	Accounts     func(io.Reader) ([]slurm.Account, Reply, error)
	Users        func(io.Reader) ([]slurm.User, Reply, error)
	Associations func(io.Reader) ([]slurm.Association, Reply, error)
	QOSes        func(io.Reader) ([]slurm.QOS, Reply, error)
}

// Writer makes request bodies, ready to be marshalled.
type Writer struct {
	Submit     func(slurm.JobRequest) any
	SubmitHet  func([]slurm.JobRequest) any
	Allocate   func(slurm.JobRequest) any
	UpdateJob  func(slurm.JobRequest) any
	CancelJobs func(ids []string) any
	CreateNode func(line string) any
	UpdateNode func(slurm.NodeUpdate) any
	// UpdateNodes is for several nodes by name.
	UpdateNodes func(names []string, u slurm.NodeUpdate) any

	Reservation    func(slurm.ReservationRequest) any
	CreateAccount  func(slurm.AccountCreate) any
	UpdateAccount  func(slurm.Account) any
	CreateUser     func(slurm.UserCreate) any
	UpdateUser     func(slurm.User) any
	PutAssociation func(slurm.Association) any
	PutQOS         func(slurm.QOS) any
}

// Problem is one entry of a reply's errors, warnings or status.
type Problem struct {
	// Code is Slurm's error number; 0 is possible, see Reply.Errors.
	Code int
	// Text is Slurm's sentence, with its own description in front where it has one.
	Text string
	// Source is the place in Slurm or in the request that it comes from.
	Source string
	// Job is the job that a status entry is about.
	Job string
}

// Reply is what surrounds the data of every answer.
type Reply struct {
	// Errors may come with HTTP status 200, and with code 0: an unknown node does.
	Errors   []Problem
	Warnings []Problem
	// Status has the jobs that a bulk request failed for.
	Status []Problem
	// Slurm tells that the answer has a list of errors, be it empty, as all of Slurm's have.
	Slurm bool
	// Listed tells that the data was there, be it an empty list.
	Listed bool
	// JobID is the id of a new job, 0 if there is none.
	JobID uint32
	// Parser is the data parser that wrote the answer, as "data_parser/v0.0.45".
	Parser string
	// LastUpdate is when slurmctld made the list.
	LastUpdate time.Time
}
