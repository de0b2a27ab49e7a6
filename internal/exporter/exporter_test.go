package exporter

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
)

// view is a View that a test sets: a view that is old can't be had from a real one in a moment.
type view struct {
	facts  Facts
	age    time.Duration
	handle func(cache.Event)
}

func (v *view) Jobs() []slurm.Job   { return v.facts.Jobs }
func (v *view) Nodes() []slurm.Node { return v.facts.Nodes }
func (v *view) Synced() bool        { return v.age >= 0 }
func (v *view) Age() time.Duration  { return v.age }
func (v *view) Subscribe(handle func(cache.Event)) func() {
	v.handle = handle
	return func() {}
}

func (v *view) change(was, now *slurm.Job) {
	v.handle(cache.Event{Job: &cache.JobChange{Old: was, New: now}})
}

var errAway = errors.New("slurmctld is away")

// parts is what is read beside the view; statistics can't be.
type parts struct{}

func (parts) Partitions(context.Context) ([]slurm.Partition, error) {
	return []slurm.Partition{{Name: "a"}}, nil
}
func (parts) Reservations(context.Context) ([]slurm.Reservation, error) { return nil, nil }
func (parts) Licenses(context.Context) ([]slurm.License, error) {
	return []slurm.License{{Name: "matlab", Total: 4, Used: 1, Free: 3}}, nil
}
func (parts) Ping(context.Context) ([]slurm.Ping, error) {
	return []slurm.Ping{{Hostname: "c0", Mode: "primary", Responding: true}, {Hostname: "c1", Mode: "backup"}}, nil
}
func (parts) Shares(context.Context) ([]slurm.Share, error) { return nil, nil }
func (parts) Associations(context.Context, slurm.AssociationFilter) ([]slurm.Association, error) {
	return nil, nil
}
func (parts) Diag(context.Context) (slurm.Diag, error) { return slurm.Diag{}, errAway }

func scrape(t *testing.T, e *Exporter) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return parse(t, w.Body.String())
}

// Old numbers never pass for present ones, and a part that can't be read hides no other.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &view{age: -1}
		e := New(Config{View: v, Slurm: parts{}, Now: time.Now, Log: logr.Discard()})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go e.Run(ctx)
		synctest.Wait()
		got := scrape(t, e)
		want(t, got, map[string]float64{"slurm_up": 0})
		if e.Ready(nil) == nil || got["slurm_exporter_data_age_seconds"] == 0 {
			t.Error("before Slurm was read the exporter is ready, or knows an age")
		}

		v.age, v.facts.Jobs = time.Second, []slurm.Job{{ID: 1, Partition: "a", States: slurm.StatesOf("PENDING")}}
		time.Sleep(6 * time.Second) //nolint:forbidigo // the clock is synctest's
		synctest.Wait()
		want(t, scrape(t, e), map[string]float64{
			"slurm_up": 1, "slurm_exporter_data_age_seconds": 1, "slurm_jobs_pending": 1, "slurm_license_used{license=matlab}": 1,
			"slurm_exporter_failures_total{what=statistics}": 1,
		})
		if err := e.Ready(nil); err != nil {
			t.Error(err)
		}

		v.age = 3 * time.Minute
		got = scrape(t, e)
		want(t, got, map[string]float64{"slurm_up": 0, "slurm_exporter_data_age_seconds": 180})
		for name := range got {
			if strings.HasPrefix(name, "slurm_jobs") {
				t.Errorf("after 3 minutes without Slurm there is %s", name)
			}
		}
	})
}

// Jobs are measured as they start and end. What was so before the exporter started doesn't count.
func TestHistograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &view{}
		// It doesn't start at the beginning of a second.
		e := New(Config{View: v, Slurm: parts{}, Now: func() time.Time { return time.Now().Add(300 * time.Millisecond) }, Log: logr.Discard()})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go e.Run(ctx)
		synctest.Wait()
		began := e.began
		at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
		v.change(nil, &slurm.Job{ID: 1, Partition: "a", States: slurm.StatesOf("RUNNING"), Nodes: "n", StartTime: at(-5)})
		v.change(nil, &slurm.Job{ID: 2, Partition: "a", States: slurm.StatesOf("COMPLETED"), Nodes: "n", StartTime: at(-9), EndTime: at(-5)})
		waits := &slurm.Job{ID: 3, Partition: "a", States: slurm.StatesOf("PENDING"), SubmitTime: at(0)}
		runs := &slurm.Job{ID: 3, Partition: "a", States: slurm.StatesOf("RUNNING"), Nodes: "n", SubmitTime: at(0), EligibleTime: at(2), StartTime: at(10)}
		ended := &slurm.Job{ID: 3, Partition: "a", States: slurm.StatesOf("COMPLETED"), Nodes: "n", StartTime: at(10), EndTime: at(40)}
		v.change(nil, waits)
		v.change(waits, runs)
		v.change(runs, ended)
		v.change(ended, ended)
		v.change(waits, &slurm.Job{ID: 4, Partition: "a", States: slurm.StatesOf("CANCELLED"), EndTime: at(40)})
		v.change(ended, nil)
		// One that starts and ends between two looks, and one that starts in the second in which the exporter does.
		v.change(nil, &slurm.Job{ID: 5, Partition: "a", States: slurm.StatesOf("FAILED"), Nodes: "n", SubmitTime: at(10), StartTime: at(12), EndTime: at(15)})
		v.change(nil, &slurm.Job{ID: 6, Partition: "a", States: slurm.StatesOf("RUNNING"), Nodes: "n", SubmitTime: began, StartTime: began.Truncate(time.Second)})
		want(t, scrape(t, e), map[string]float64{"slurm_job_wait_seconds{partition=a}": 3, "slurm_job_run_seconds{partition=a}": 2})
		families, err := e.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if sums := map[string]float64{"slurm_job_wait_seconds": 10, "slurm_job_run_seconds": 33}; sums[f.GetName()] != 0 && f.Metric[0].Histogram.GetSampleSum() != sums[f.GetName()] {
				t.Errorf("%s sums up to %v", f.GetName(), f.Metric[0].Histogram.GetSampleSum())
			}
		}
	})
}
