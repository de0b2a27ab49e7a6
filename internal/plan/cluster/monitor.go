package cluster

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
)

// MonitorOf is the ServiceMonitor of a Controller without what it asks for: a kind of the
// Prometheus operator, which may not be there.
func MonitorOf(c *v1beta1.Controller) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("monitoring.coreos.com/v1")
	u.SetKind("ServiceMonitor")
	u.SetNamespace(c.Namespace)
	u.SetName(c.WorkloadName())
	return u
}

// Monitor is the ServiceMonitor that a Controller wants, nil for none. It selects one
// Service, so that each slurmctld is scraped once.
func Monitor(c *v1beta1.Controller) *unstructured.Unstructured {
	m := c.Spec.Metrics
	if c.Spec.External || !m.Enabled || !m.ServiceMonitor.Enabled {
		return nil
	}
	u := MonitorOf(c)
	l, a := overlay.Metadata(c, m.ServiceMonitor.Metadata, labels(v1beta1.NameSlurmctld, c.Name, v1beta1.ComponentController), nil)
	u.SetLabels(l)
	u.SetAnnotations(a)
	u.SetOwnerReferences(ownedBy(c, v1beta1.KindController))
	selected := map[string]any{v1beta1.LabelMetrics: "true"}
	for k, v := range selector(v1beta1.NameSlurmctld, c.Name) {
		selected[k] = v
	}
	u.Object["spec"] = map[string]any{
		"selector":  map[string]any{"matchLabels": selected},
		"endpoints": endpoints(m.ServiceMonitor),
	}
	return u
}

func endpoints(m v1beta1.ServiceMonitor) []any {
	wanted := slices.Clone(m.Endpoints)
	if len(wanted) == 0 {
		for _, path := range []string{"jobs", "nodes", "partitions", "scheduler"} {
			wanted = append(wanted, v1beta1.MetricsEndpoint{Path: "/metrics/" + path})
		}
	}
	var out []any
	for _, e := range wanted {
		one := map[string]any{"port": v1beta1.NameSlurmctld, "path": e.Path}
		for key, value := range map[string][2]v1beta1.PrometheusDuration{
			"interval": {e.Interval, m.Interval}, "scrapeTimeout": {e.ScrapeTimeout, m.ScrapeTimeout},
		} {
			if value[0] == "" {
				value[0] = value[1]
			}
			if value[0] != "" {
				one[key] = string(value[0])
			}
		}
		out = append(out, one)
	}
	return out
}
