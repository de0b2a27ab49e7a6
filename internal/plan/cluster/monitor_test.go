package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Each slurmctld is behind two Services; only one of them may be a target.
func TestCheck16OneTargetPerPod(t *testing.T) {
	f := facts()
	f.Controller.Spec.Metrics = v1beta1.Metrics{Enabled: true, ServiceMonitor: v1beta1.ServiceMonitor{Enabled: true, Interval: "30s",
		Endpoints: []v1beta1.MetricsEndpoint{{Path: "/metrics/jobs", Interval: "5s"}, {Path: "/metrics/nodes", ScrapeTimeout: "3s"}}}}
	u := Monitor(f.Controller)
	want := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{
			v1beta1.LabelName: "slurmctld", v1beta1.LabelInstance: "slurm", v1beta1.LabelMetrics: "true"}},
		"endpoints": []any{
			map[string]any{"port": "slurmctld", "path": "/metrics/jobs", "interval": "5s"},
			map[string]any{"port": "slurmctld", "path": "/metrics/nodes", "interval": "30s", "scrapeTimeout": "3s"},
		},
	}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	targets := 0
	for _, o := range Controller(f).Objects {
		if s, ok := o.(*corev1.Service); ok && s.Labels[v1beta1.LabelName] == "slurmctld" && s.Labels[v1beta1.LabelMetrics] == "true" {
			targets++
		}
	}
	if targets != 1 {
		t.Errorf("%d Services are selected", targets)
	}
	f.Controller.Spec.Metrics.ServiceMonitor.Endpoints = nil
	if n := len(Monitor(f.Controller).Object["spec"].(map[string]any)["endpoints"].([]any)); n != 4 {
		t.Errorf("%d endpoints by default, want 4", n)
	}
	f.Controller.Spec.External = true
	if Monitor(f.Controller) != nil {
		t.Error("an external slurmctld has no target")
	}
}
