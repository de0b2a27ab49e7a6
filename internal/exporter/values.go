package exporter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Value is a sample of a metric.
type Value struct {
	Labels map[string]string
	Value  float64
}

// ErrUnknown is the error of a metric that there isn't.
var ErrUnknown = errors.New("no such metric")

// ErrStale is the error while Slurm is away: an autoscaler must not act on what was.
var ErrStale = errors.New("Slurm has not been read for too long")

// Values are the samples of a metric that is a number now, and when they were counted. It needs Config.Keep.
func (e *Exporter) Values(metric string) ([]Value, time.Time, error) {
	page := e.page.Load()
	if page == nil || !e.fresh() {
		return nil, time.Time{}, ErrStale
	}
	family := page.families[metric]
	if family == nil || family.GetType() == dto.MetricType_HISTOGRAM {
		return nil, time.Time{}, fmt.Errorf("%w: %s", ErrUnknown, metric)
	}
	var out []Value
	for _, m := range family.Metric {
		v := Value{Labels: map[string]string{}, Value: m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()}
		for _, l := range m.Label {
			v.Labels[l.GetName()] = l.GetValue()
		}
		out = append(out, v)
	}
	return out, page.at, nil
}

// Names are the metrics that Values knows.
func (e *Exporter) Names() []string {
	page := e.page.Load()
	if page == nil {
		return nil
	}
	names := make([]string, 0, len(page.families))
	for name := range page.families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
