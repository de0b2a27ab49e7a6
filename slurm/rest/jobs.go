package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// read makes a call that returns a list of T.
func read[T any](ctx context.Context, c *Client, op call,
	pick func(dialect.Reader) func(io.Reader) ([]T, dialect.Reply, error)) ([]T, *dialect.Reply, error) {
	op.method, op.read = http.MethodGet, true
	var out []T
	rep, err := c.do(ctx, op, nil, func(d dialect.Dialect, a answer) (rep dialect.Reply, err error) {
		out, rep, err = pick(d.Read)(bytes.NewBuffer(a.body))
		return rep, err
	})
	if err != nil || rep == nil {
		return nil, nil, err
	}
	if !rep.Listed {
		return nil, nil, &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, HTTPStatus: http.StatusOK, Text: "the answer has no list of objects"}
	}
	return out, rep, nil
}

// write makes a call whose answer has no data.
func (c *Client) write(ctx context.Context, op call, body func(dialect.Writer) any) (dialect.Reply, error) {
	var content func(dialect.Dialect) any
	if body != nil {
		content = func(d dialect.Dialect) any { return body(d.Write) }
	}
	rep, err := c.do(ctx, op, content, func(_ dialect.Dialect, a answer) (dialect.Reply, error) {
		return dialect.Envelope(bytes.NewReader(a.body))
	})
	if err != nil || rep == nil {
		return dialect.Reply{}, err
	}
	if !rep.Slurm {
		return dialect.Reply{}, foreign(op)
	}
	return *rep, nil
}

// foreign is the error of an answer that is no failure and doesn't have what
// Slurm answers to the call. Only Slurm's own word makes a thing not exist.
func foreign(op call) error {
	return &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, HTTPStatus: http.StatusOK, Text: "the answer isn't one to this call"}
}

func notFound(op call) error {
	return &slurm.Error{Kind: slurm.ErrNotFound, Op: op.name, HTTPStatus: http.StatusOK}
}

// Jobs implements slurm.Jobs.
func (c *Client) Jobs(ctx context.Context) ([]slurm.Job, error) {
	op := call{name: "list jobs", path: "jobs/", list: true}
	jobs, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Job, dialect.Reply, error) { return r.Jobs })
	return jobs, err
}

// JobStates implements slurm.Jobs.
func (c *Client) JobStates(ctx context.Context) ([]slurm.JobState, error) {
	op := call{name: "list job states", path: "jobs/state/", list: true}
	states, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.JobState, dialect.Reply, error) {
		return r.JobStates
	})
	return states, err
}

// JobRecords returns all records of a job: several for an array whose tasks have
// started and for the leader of a heterogeneous job.
func (c *Client) JobRecords(ctx context.Context, id uint32) ([]slurm.Job, error) {
	op := call{name: fmt.Sprintf("read job %d", id), path: "job/" + strconv.FormatUint(uint64(id), 10), single: true}
	jobs, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Job, dialect.Reply, error) { return r.Jobs })
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j slurm.Job) bool {
		whole := slurm.NumberOf(uint64(id))
		return j.ID != id && j.ArrayJobID != whole && j.HetJobID != whole
	})
	if len(jobs) == 0 {
		return nil, foreign(op)
	}
	return jobs, nil
}

// Job implements slurm.Jobs.
func (c *Client) Job(ctx context.Context, id uint32) (slurm.Job, error) {
	jobs, err := c.JobRecords(ctx, id)
	if err != nil {
		return slurm.Job{}, err
	}
	for _, j := range jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return jobs[0], nil
}

// Allocation implements slurm.Jobs.
func (c *Client) Allocation(ctx context.Context, id uint32) (slurm.Allocation, error) {
	op := call{name: fmt.Sprintf("read allocation of job %d", id), path: "resources/" + strconv.FormatUint(uint64(id), 10), single: true, since: "v0.0.44"}
	nodes, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.NodeAllocation, dialect.Reply, error) {
		return r.Resources
	})
	if err == nil && len(nodes) == 0 {
		err = foreign(op)
	}
	if err != nil {
		return slurm.Allocation{}, err
	}
	return slurm.Allocation{JobID: id, Nodes: nodes}, nil
}

// Submit implements slurm.Jobs.
func (c *Client) Submit(ctx context.Context, req slurm.JobRequest) (uint32, error) {
	op := call{name: fmt.Sprintf("submit job %q", req.Name), method: http.MethodPost, path: "job/submit", creates: true}
	return c.create(ctx, op, func(w dialect.Writer) any { return w.Submit(req) })
}

// SubmitHet queues one heterogeneous job and returns the id of its first component, its
// leader. Slurm starts all components at once, and only when it plans ahead
// (backfill), so not as soon as an ordinary job. External ones need Slurm 26.05.
func (c *Client) SubmitHet(ctx context.Context, components []slurm.JobRequest) (uint32, error) {
	op := call{name: "submit a heterogeneous job", method: http.MethodPost, path: "job/submit", creates: true}
	if len(components) < 2 {
		return 0, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "a heterogeneous job has two components or more"}
	}
	op.name = fmt.Sprintf("submit heterogeneous job %q", components[0].Name)
	for _, r := range components {
		if r.Script != "" {
			return 0, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "the components of a heterogeneous job have no script here"}
		}
	}
	return c.create(ctx, op, func(w dialect.Writer) any { return w.SubmitHet(components) })
}

// AllocateNow implements slurm.Jobs.
func (c *Client) AllocateNow(ctx context.Context, req slurm.JobRequest) (uint32, error) {
	op := call{name: fmt.Sprintf("allocate job %q", req.Name), method: http.MethodPost, path: "job/allocate", creates: true}
	if !req.External || req.Script != "" {
		// Without EXTERNAL_JOB, Slurm would take slurmrestd for the job's own node.
		return 0, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "only an external job without a script can be allocated at once"}
	}
	if req.UserID != "" || req.GroupID != "" {
		// slurmrestd ignores both here, and makes the job that of the token's user.
		return 0, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "a job of another user or group can't be allocated at once; submit it"}
	}
	return c.create(ctx, op, func(w dialect.Writer) any { return w.Allocate(req) })
}

func (c *Client) create(ctx context.Context, op call, body func(dialect.Writer) any) (uint32, error) {
	rep, err := c.write(ctx, op, body)
	if err != nil {
		return 0, err
	}
	if rep.JobID == 0 && len(rep.Warnings) > 0 {
		// So slurmrestd refuses a value of the wrong type.
		return 0, &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, HTTPStatus: http.StatusOK, Text: rep.Warnings[0].Text}
	}
	if rep.JobID == 0 {
		return 0, &slurm.Error{Kind: slurm.ErrUnavailable, Op: op.name, HTTPStatus: http.StatusOK, Text: "the answer has no job id"}
	}
	return rep.JobID, nil
}

// UpdateJob implements slurm.Jobs.
func (c *Client) UpdateJob(ctx context.Context, id uint32, req slurm.JobRequest) error {
	req.External, req.Script = false, "" // a job can't become or stop being external
	op := call{name: fmt.Sprintf("update job %d", id), method: http.MethodPost, path: "job/" + strconv.FormatUint(uint64(id), 10), single: true}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.UpdateJob(req) })
	return err
}

// CancelJobs implements slurm.Jobs. It sends no signal by name: any but KILL
// makes slurmctld call the node of an external job, where nobody answers, and
// the node is lost to Slurm.
//
// Never act for a user who may not cancel all of the jobs: slurmctld 26.05.5
// then keeps its locks for good and answers nobody any more.
func (c *Client) CancelJobs(ctx context.Context, ids ...uint32) error {
	if len(ids) == 0 {
		return nil
	}
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.FormatUint(uint64(id), 10)
	}
	op := call{name: fmt.Sprintf("cancel %d jobs", len(ids)), method: http.MethodDelete, path: "jobs/"}
	if len(ids) == 1 {
		op.name = "cancel job " + text[0]
	}
	rep, err := c.write(ctx, op, func(w dialect.Writer) any { return w.CancelJobs(text) })
	if err != nil {
		return err
	}
	return statusFailure(op, rep.Status)
}

// statusFailure makes one error of the jobs that couldn't be cancelled.
func statusFailure(op call, status []dialect.Problem) error {
	var e *slurm.Error
	for _, p := range status {
		switch p.Code {
		case codeNoJob, codeAlreadyDone, codeJobFinished:
			continue
		}
		if e == nil {
			e = &slurm.Error{Kind: kindOf(op, http.StatusOK, p.Code), Op: op.name, HTTPStatus: http.StatusOK, Code: p.Code}
		} else if len(e.Text) > 300 {
			continue
		} else {
			e.Text += "; "
		}
		e.Text += fmt.Sprintf("job %s: %s", p.Job, p.Text)
	}
	if e == nil {
		return nil
	}
	return e
}
