// Package metrics counts what the bridge's programs do. Labels are words of ours or kinds of errors, so
// the number of series is bounded, whatever users and Slurm say.
package metrics

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slinky-hpc/slinky/slurm"
)

// Calls are the calls to Slurm.
type Calls struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewCalls returns a counter of calls.
func NewCalls() *Calls {
	return &Calls{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slurm_bridge_slurm_calls_total", Help: "Calls to slurmrestd, by method and result.",
		}, []string{"method", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slurm_bridge_slurm_call_seconds", Help: "Time of calls to slurmrestd, with all their tries.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"method"}),
	}
}

// Observe counts a call that has ended.
func (c *Calls) Observe(method string, took time.Duration, err error) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		method = "other"
	}
	c.total.WithLabelValues(method, Result(err)).Inc()
	c.seconds.WithLabelValues(method).Observe(took.Seconds())
}

// Result is one word for how a call to Slurm ended.
func Result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, slurm.ErrBusy):
		return "busy"
	case errors.Is(err, slurm.ErrInvalid):
		return "refused"
	case errors.Is(err, slurm.ErrNotFound):
		return "not-found"
	case errors.Is(err, slurm.ErrUnavailable):
		return "unavailable"
	}
	return "failed"
}

// Describe implements prometheus.Collector.
func (c *Calls) Describe(out chan<- *prometheus.Desc) { c.total.Describe(out); c.seconds.Describe(out) }

// Collect implements prometheus.Collector.
func (c *Calls) Collect(out chan<- prometheus.Metric) { c.total.Collect(out); c.seconds.Collect(out) }

// State is what there is now.
type State interface {
	// Waiting counts the pods that wait, by the reason in their condition.
	Waiting() map[string]int
	// Placed is how many pods have a node and are not bound yet.
	Placed() int
	// Age is how old what is known of Slurm is; negative before anything is known.
	Age() time.Duration
}

// Submissions are what the scheduler's submitter does.
type Submissions struct {
	total      *prometheus.CounterVec
	taken      prometheus.Histogram
	placed     prometheus.Histogram
	state      State
	waiting    *prometheus.Desc
	table, age *prometheus.Desc
}

// NewSubmissions returns a counter of submissions. SetState gives it the rest.
func NewSubmissions() *Submissions {
	buckets := prometheus.ExponentialBuckets(0.005, 2.5, 14)
	return &Submissions{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slurm_bridge_submissions_total", Help: "Jobs that Slurm was asked for, by result.",
		}, []string{"result"}),
		taken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slurm_bridge_submit_seconds", Help: "Time from a pod's creation until Slurm took its job, of pods that no job had covered before.", Buckets: buckets,
		}),
		placed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slurm_bridge_placed_seconds", Help: "Time from a pod's creation until it had its node from Slurm.", Buckets: buckets,
		}),
		waiting: prometheus.NewDesc("slurm_bridge_pods_waiting", "Pods that wait, by the reason in their condition SlurmScheduled.", []string{"reason"}, nil),
		table:   prometheus.NewDesc("slurm_bridge_pods_placed", "Pods that have a node from Slurm and are not bound yet.", nil, nil),
		age:     prometheus.NewDesc("slurm_bridge_view_age_seconds", "How old what is known of Slurm is.", nil, nil),
	}
}

// SetState says where the present state is to be had. It must be called before the first collection.
func (s *Submissions) SetState(state State) { s.state = state }

// Asked counts a request for a job.
func (s *Submissions) Asked(err error) { s.total.WithLabelValues(Result(err)).Inc() }

// Taken measures the time from a pod's creation until its job was taken.
func (s *Submissions) Taken(d time.Duration) { s.taken.Observe(max(d, 0).Seconds()) }

// Placed measures the time from a pod's creation until it had a node.
func (s *Submissions) Placed(d time.Duration) { s.placed.Observe(max(d, 0).Seconds()) }

// Describe implements prometheus.Collector.
func (s *Submissions) Describe(out chan<- *prometheus.Desc) {
	s.total.Describe(out)
	s.taken.Describe(out)
	s.placed.Describe(out)
	out <- s.waiting
	out <- s.table
	out <- s.age
}

// Collect implements prometheus.Collector.
func (s *Submissions) Collect(out chan<- prometheus.Metric) {
	s.total.Collect(out)
	s.taken.Collect(out)
	s.placed.Collect(out)
	for reason, n := range s.state.Waiting() {
		out <- prometheus.MustNewConstMetric(s.waiting, prometheus.GaugeValue, float64(n), reason)
	}
	out <- prometheus.MustNewConstMetric(s.table, prometheus.GaugeValue, float64(s.state.Placed()))
	if age := s.state.Age(); age >= 0 {
		out <- prometheus.MustNewConstMetric(s.age, prometheus.GaugeValue, age.Seconds())
	}
}

// Ends are what the controllers do when pods and jobs end.
type Ends struct{ pods, jobs *prometheus.CounterVec }

// NewEnds returns a counter of ends.
func NewEnds() *Ends {
	return &Ends{
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slurm_bridge_pods_ended_total", Help: "Pods deleted for what their Slurm jobs became, by reason.",
		}, []string{"reason"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slurm_bridge_jobs_cancelled_total", Help: "Slurm jobs cancelled because their pods are gone, by result.",
		}, []string{"result"}),
	}
}

// Pod counts a pod that was deleted.
func (e *Ends) Pod(reason string) { e.pods.WithLabelValues(reason).Inc() }

// Job counts a job that was cancelled.
func (e *Ends) Job(err error) { e.jobs.WithLabelValues(Result(err)).Inc() }

// Describe implements prometheus.Collector.
func (e *Ends) Describe(out chan<- *prometheus.Desc) { e.pods.Describe(out); e.jobs.Describe(out) }

// Collect implements prometheus.Collector.
func (e *Ends) Collect(out chan<- prometheus.Metric) { e.pods.Collect(out); e.jobs.Collect(out) }
