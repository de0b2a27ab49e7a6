package dracpu

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// metrics have the published names; those of NRI are ours.
type metrics struct {
	registry               *prometheus.Registry
	prepared, unprepared   *prometheus.CounterVec
	seconds, size          prometheus.Histogram
	hooks                  *prometheus.HistogramVec
	connected              prometheus.Gauge
	updates, updatesFailed prometheus.Counter
	refused, unconfined    prometheus.Counter
}

func newMetrics(l *ledger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		prepared: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dra_cpu_prepare_claims_total",
			Help: "Claims that kubelet asked to prepare, by result."}, []string{"result"}),
		unprepared: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dra_cpu_unprepare_claims_total",
			Help: "Claims that kubelet asked to unprepare, by result."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dra_cpu_prepare_claim_duration_seconds",
			Help: "Time to prepare a claim.", Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dra_cpu_claim_allocated_cpus",
			Help: "CPUs of a prepared claim.", Buckets: prometheus.ExponentialBuckets(1, 2, 11)}),
		hooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dra_cpu_nri_hook_duration_seconds",
			Help: "Time that the container runtime waited for the driver.", Buckets: prometheus.ExponentialBuckets(.00005, 4, 9)}, []string{"hook"}),
		connected:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_cpu_nri_connected", Help: "1 while the container runtime is connected."}),
		updates:       prometheus.NewCounter(prometheus.CounterOpts{Name: "dra_cpu_nri_updates_total", Help: "Containers whose CPUs were changed while they ran."}),
		updatesFailed: prometheus.NewCounter(prometheus.CounterOpts{Name: "dra_cpu_nri_updates_failed_total", Help: "Such changes that the runtime did not carry out."}),
		unconfined: prometheus.NewCounter(prometheus.CounterOpts{Name: "dra_cpu_containers_unconfined_total",
			Help: "Containers that the runtime made without the driver while claims had CPUs."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "dra_cpu_containers_refused_total", Help: "Containers that were not allowed to start."}),
	}
	for _, result := range []string{"success", "error", "unknown"} {
		m.prepared.WithLabelValues(result)
		m.unprepared.WithLabelValues(result)
	}
	for _, hook := range []string{"synchronize", "create"} {
		m.hooks.WithLabelValues(hook)
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(m.prepared, m.unprepared, m.seconds, m.size, m.hooks, m.connected, m.updates, m.updatesFailed, m.refused, m.unconfined,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("dra_cpu_resource_claims_active", "Prepared claims.", func() int { n, _, _, _, _ := l.counts(); return n }),
		gauge("dra_cpu_allocated_cpus", "CPUs that claims have.", func() int { _, n, _, _, _ := l.counts(); return n }),
		gauge("dra_cpu_available_cpus", "CPUs of containers without a claim.", func() int { _, _, n, _, _ := l.counts(); return n }),
		gauge("dra_cpu_reserved_cpus", "CPUs that are offered to nobody.", func() int { _, _, _, n, _ := l.counts(); return n }),
		gauge("dra_cpu_containers", "Containers that the driver knows.", func() int { _, _, _, _, n := l.counts(); return n }),
	)
	return m
}

// hook measures until the function that it returns is called.
func (m *metrics) hook(name string) func() {
	began := time.Now()
	return func() { m.hooks.WithLabelValues(name).Observe(time.Since(began).Seconds()) }
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// Metric describes one of the driver's metrics.
type Metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Help   string   `json:"help"`
	Labels []string `json:"labels"`
}

// Metrics lists those that have the driver's name, sorted.
func Metrics() ([]Metric, error) {
	families, err := newMetrics(newLedger("", "", "", cpuset.Machine{}, 0)).registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("list the metrics: %w", err)
	}
	var out []Metric
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "dra_cpu_") {
			continue
		}
		m := Metric{f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp(), []string{}}
		for _, l := range f.GetMetric()[0].GetLabel() {
			m.Labels = append(m.Labels, l.GetName())
		}
		out = append(out, m)
	}
	return out, nil
}
