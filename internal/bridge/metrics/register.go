package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// In returns a function that registers collectors in a registry.
func In(r prometheus.Registerer) func(...prometheus.Collector) error {
	return func(all ...prometheus.Collector) error {
		var errs []error
		for _, c := range all {
			errs = append(errs, r.Register(c))
		}
		return errors.Join(errs...)
	}
}
