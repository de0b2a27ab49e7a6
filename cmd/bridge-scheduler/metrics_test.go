package main

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// counted returns what a program has counted, summed over labels; histograms count their samples.
func counted(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			out[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// isCounted: both programs count what they do.
func (w *world) isCounted(t *testing.T) {
	const cancelled = "slurm_bridge_jobs_cancelled_total"
	before := counted(t, w.controllerCounts)[cancelled]
	w.pod("counted", nil)
	w.bound(t, "counted")
	w.kubelet(t, "counted", corev1.PodSucceeded)
	got := counted(t, w.schedulerCounts)
	for _, name := range []string{
		"slurm_bridge_slurm_calls_total", "slurm_bridge_slurm_call_seconds", "slurm_bridge_submissions_total",
		"slurm_bridge_submit_seconds", "slurm_bridge_placed_seconds", "slurm_bridge_view_age_seconds",
	} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	w.eventually(t, "the end of a job is counted", func() error {
		if n := counted(t, w.controllerCounts)[cancelled]; n <= before {
			return fmt.Errorf("%s is still %v", cancelled, n)
		}
		return nil
	})
}
