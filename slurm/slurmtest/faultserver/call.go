package faultserver

import (
	"net/http"
	"strings"
)

// Call is a kind of call.
type Call string

// The calls that the server answers. AnyCall stands for all of them.
const (
	AnyCall     Call = "any"
	Ping        Call = "GET ping"
	Diag        Call = "GET diag"
	Reconfigure Call = "GET reconfigure"
	JobStates   Call = "GET jobs/state"
	Jobs        Call = "GET jobs"
	CancelJobs  Call = "DELETE jobs"
	Job         Call = "GET job"
	UpdateJob   Call = "POST job"
	CancelJob   Call = "DELETE job"
	Submit      Call = "POST job/submit"
	Allocate    Call = "POST job/allocate"
	Resources   Call = "GET resources"
	Nodes       Call = "GET nodes"
	Node        Call = "GET node"
	UpdateNode  Call = "POST node"
	DeleteNode  Call = "DELETE node"
	CreateNode  Call = "POST new/node"
	Partitions  Call = "GET partitions"
	Shares      Call = "GET shares"
)

// lists has the calls without a target, targets those with one.
func lists() []Call {
	return []Call{Ping, Diag, Reconfigure, JobStates, Jobs, CancelJobs, Submit, Allocate, Nodes, CreateNode, Partitions, Shares}
}

func targets() []Call {
	return []Call{Job, UpdateJob, CancelJob, Resources, Node, UpdateNode, DeleteNode}
}

// inquiry is a parsed URL.
type inquiry struct {
	// call is "" where slurmrestd has no such URL.
	call            Call
	version, target string
}

func parse(r *http.Request) inquiry {
	version, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/slurm/"), "/")
	in := inquiry{version: version}
	path = strings.TrimSuffix(path, "/")
	for _, c := range lists() {
		if string(c) == r.Method+" "+path {
			in.call = c
			return in
		}
	}
	for _, c := range targets() {
		if target, ok := strings.CutPrefix(r.Method+" "+path, string(c)+"/"); ok && target != "" && !strings.Contains(target, "/") {
			in.call, in.target = c, target
		}
	}
	return in
}

func (in inquiry) request(r *http.Request) Request {
	return Request{
		Call: in.call, Target: in.target, Query: r.URL.RawQuery,
		Token: r.Header.Get("X-SLURM-USER-TOKEN"), User: r.Header.Get("X-SLURM-USER-NAME"),
	}
}
