package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Slurm is a slurmrestd, called as plainly as can be: what this can't reach, nobody can.
type Slurm struct {
	// URL of slurmrestd and Version of its data parser.
	URL, Version string
	// Token returns the token of a call.
	Token func(context.Context) (string, error)

	client *http.Client
}

// NewSlurm returns a slurmrestd.
func NewSlurm(url, version string, token func(context.Context) (string, error)) *Slurm {
	return &Slurm{
		URL: strings.TrimRight(url, "/"), Version: version, Token: token,
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
}

// Close gives idle connections up.
func (s *Slurm) Close() { s.client.CloseIdleConnections() }

// Call makes a call and decodes its answer into out, unless that is nil.
func (s *Slurm) Call(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/slurm/"+s.Version+path, content)
	if err != nil {
		return err
	}
	token, err := s.Token(ctx)
	if err != nil {
		return err
	}
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text[:min(len(text), 300)])
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// States returns the states of all jobs by id, and when the answer was there.
func (s *Slurm) States(ctx context.Context) (map[string][]string, time.Time, error) {
	var list struct {
		Jobs []struct {
			ID    any      `json:"job_id"`
			State []string `json:"state"`
		} `json:"jobs"`
	}
	if err := s.Call(ctx, http.MethodGet, "/jobs/state/", nil, &list); err != nil {
		return nil, time.Time{}, err
	}
	states := make(map[string][]string, len(list.Jobs))
	for _, j := range list.Jobs {
		id := fmt.Sprint(j.ID)
		if f, ok := j.ID.(float64); ok {
			id = strconv.FormatFloat(f, 'f', -1, 64)
		}
		id, _, _ = strings.Cut(id, ".")
		states[id] = j.State
	}
	return states, time.Now(), nil
}

// Active tells whether a job with these states waits or runs.
func Active(states []string) bool {
	for _, word := range states {
		if word == "RUNNING" || word == "PENDING" || word == "SUSPENDED" {
			return true
		}
	}
	return false
}

// Cancel cancels jobs in one call.
func (s *Slurm) Cancel(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.Call(ctx, http.MethodDelete, "/jobs/", map[string]any{"jobs": ids}, nil)
}

// BareJobs are external jobs without any pod.
type BareJobs struct {
	Name, Partition string
	Count, Workers  int
	// Rate of submissions per second; 0 for as fast as the workers can.
	Rate      float64
	CPUs      int
	MemoryMiB int64
	Nodes     int
	Exclusive bool
	// Now starts each job with its submission, instead of queueing it.
	Now bool
}

func (b BareJobs) body() map[string]any {
	nodes := max(b.Nodes, 1)
	job := map[string]any{
		"name": b.Name, "partition": b.Partition, "flags": []string{"EXTERNAL_JOB"}, "current_working_directory": "/tmp",
		"nodes": strconv.Itoa(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes, "tasks_per_node": 1, "cpus_per_task": b.CPUs,
		"memory_per_node": map[string]any{"set": true, "number": b.MemoryMiB},
	}
	if b.Exclusive {
		job["shared"] = []string{"none"}
	}
	if b.Now {
		job["immediate"] = true
	}
	return map[string]any{"job": job}
}

// BareTimes is how bare jobs came to run.
type BareTimes struct {
	// Running counts the jobs seen running, Failed the refused submissions; FirstError is what the first said.
	Running, Failed int
	FirstError      error
	// Submit is how long all submissions took, Wall how long until all ran.
	Submit, Wall time.Duration
	PerSecond    float64
	// Call is one submission, Latency from a submission to seen running.
	Call, Latency Quantiles
	IDs           []string
}

// bareRun is a run of bare jobs.
type bareRun struct {
	BareJobs
	slurm *Slurm
	start time.Time

	mu        sync.Mutex
	submitted map[string]time.Time
	call      []time.Duration
	out       BareTimes
}

// Run submits bare jobs and waits until all run.
func (s *Slurm) Run(ctx context.Context, b BareJobs) (BareTimes, error) {
	r := &bareRun{BareJobs: b, slurm: s, start: time.Now(), submitted: map[string]time.Time{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.submitAll(ctx)
	}()
	latency, err := r.watch(ctx, done)
	<-done
	r.out.Call, r.out.Latency = QuantilesOf(r.call), QuantilesOf(latency)
	r.out.Running = len(latency)
	if r.out.Wall > 0 {
		r.out.PerSecond = float64(r.out.Running) / r.out.Wall.Seconds()
	}
	for id := range r.submitted {
		r.out.IDs = append(r.out.IDs, id)
	}
	return r.out, err
}

func (r *bareRun) submitAll(ctx context.Context) {
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range max(r.Workers, 1) {
		wg.Go(func() {
			for range work {
				r.submit(ctx)
			}
		})
	}
	pace := newPace(r.Rate)
	for range r.Count {
		pace.wait(ctx)
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	r.out.Submit = time.Since(r.start)
}

func (r *bareRun) submit(ctx context.Context) {
	path := "/job/submit"
	if r.Now {
		path = "/job/allocate"
	}
	var answer struct {
		ID json.Number `json:"job_id"`
	}
	start := time.Now()
	err := r.slurm.Call(ctx, http.MethodPost, path, r.body(), &answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call = append(r.call, time.Since(start))
	if err != nil {
		if r.out.Failed++; r.out.FirstError == nil {
			r.out.FirstError = err
		}
		return
	}
	r.submitted[answer.ID.String()] = start
}

// watch polls the states of all jobs until those of the run are running. A job
// that was allocated at once runs when the call returns, so there one look is enough.
func (r *bareRun) watch(ctx context.Context, submitted <-chan struct{}) ([]time.Duration, error) {
	if r.Now {
		<-submitted
		r.out.Wall = r.out.Submit
		return r.call[:len(r.submitted)], nil
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	running := map[string]bool{}
	var latency []time.Duration
	all := false
	for {
		select {
		case <-submitted:
			all = true
		default:
		}
		states, now, err := r.slurm.States(ctx)
		if err != nil {
			return latency, err
		}
		r.mu.Lock()
		for id, at := range r.submitted {
			if !running[id] && len(states[id]) > 0 && states[id][0] == "RUNNING" {
				running[id] = true
				latency = append(latency, now.Sub(at))
			}
		}
		missing := r.Count - r.out.Failed - len(running)
		r.mu.Unlock()
		if all && missing == 0 {
			r.out.Wall = now.Sub(r.start)
			return latency, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return latency, fmt.Errorf("%d of %d bare jobs don't run yet: %w", missing, r.Count, context.Cause(ctx))
		}
	}
}
