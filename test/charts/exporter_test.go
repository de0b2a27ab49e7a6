package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	exporterChart = "slurm-exporter"
	// exporterEverything has everything on that is off by default.
	exporterEverything = `
exporter: {jwtKeySecret: {name: key}, token: {create: true}, externalMetrics: {enabled: true}, serviceMonitor: {enabled: true, interval: 60s}, vpensoNames: true, extraArgs: [--no-users]}
prometheusRule: {enabled: true}
`
)

// The published values give what they gave: a Secret's token, the cluster's REST API, one Deployment.
func TestExporter(t *testing.T) {
	all := render(t, exporterChart, "exporter: {secretName: slurm-token, cacheFrequency: 7s, logLevel: debug, replicas: 2}")
	deployment := find(t, all, "Deployment", exporterChart)
	args := containers(deployment)[0]["args"].([]any)
	for _, want := range []any{"--server=http://slurm-restapi.slinky:6820", "--cache-freq=7s", "--zap-log-level=debug"} {
		if !slices.Contains(args, want) {
			t.Errorf("arguments %v lack %v", args, want)
		}
	}
	same(t, "replicas", int64(2), at(t, deployment, "spec", "replicas"))
	same(t, "image", "ghcr.io/slinky-hpc/exporter:"+version(t, exporterChart), containers(deployment)[0]["image"])
	text, err := deployment.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"secretName":"slurm-token"`) || !strings.Contains(string(text), "/etc/slurm-auth/auth-token") || strings.Contains(string(text), "external") {
		t.Errorf("the Deployment is\n%s", text)
	}
	for _, unwanted := range []string{"ServiceMonitor", "PrometheusRule", "APIService", "ClusterRole", "Token"} {
		if slices.ContainsFunc(names(all), func(n string) bool { return strings.HasPrefix(n, unwanted+" ") }) {
			t.Errorf("there is a %s that nobody asked for", unwanted)
		}
	}
}

func version(t *testing.T, name string) string {
	t.Helper()
	var chart struct{ Version string }
	if err := yaml.Unmarshal([]byte(read(t, "../../charts", name, "Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	return chart.Version
}

// The dashboards and rules in the cluster are the files, byte for byte: templates in them are Grafana's and Prometheus'.
func TestExporterFiles(t *testing.T) {
	all := render(t, exporterChart, "exporter: {enabled: false}\nprometheusRule: {enabled: true, labels: {release: prom}}\ngrafana: {annotations: {folder: Slurm}}")
	files, err := filepath.Glob(filepath.Join(chart(exporterChart), "files", "dashboards", "*.json"))
	if err != nil || len(files) != 6 {
		t.Fatalf("dashboards %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		c := find(t, all, "ConfigMap", exporterChart+"-"+strings.TrimSuffix(name, ".json"))
		same(t, name, strings.TrimSpace(string(text)), strings.TrimSpace(at(t, c, "data", "slinky-"+name).(string)))
		if c.GetLabels()["grafana_dashboard"] != "1" || c.GetAnnotations()["folder"] != "Slurm" {
			t.Errorf("%s has labels %v and annotations %v", name, c.GetLabels(), c.GetAnnotations())
		}
	}
	var want any
	if err := yaml.Unmarshal([]byte(read(t, chart(exporterChart), "files", "rules.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	rule := find(t, all, "PrometheusRule", exporterChart)
	have, err := json.Marshal(at(t, rule, "spec"))
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(have, &got); err != nil {
		t.Fatal(err)
	}
	same(t, "rules", want, got)
	if rule.GetLabels()["release"] != "prom" || len(all) != 7 {
		t.Errorf("labels %v of the rules; objects %v", rule.GetLabels(), names(all))
	}
}

// With everything on, each object is there, and the exporter has the rights of its own role alone.
func TestExporterEverything(t *testing.T) {
	all := render(t, exporterChart, exporterEverything)
	token := find(t, all, "Token", exporterChart)
	same(t, "the token's key", map[string]any{"name": "key", "key": "jwt.key"}, at(t, token, "spec", "jwtKeyRef"))
	same(t, "the token's Secret", map[string]any{"name": "slurm-exporter-token", "key": "auth-token"}, at(t, token, "spec", "secretRef"))
	service := at(t, find(t, all, "APIService", "v1beta1.external.metrics.k8s.io"), "spec", "service").(map[string]any)
	same(t, "the Service that is called", map[string]any{"name": exporterChart, "namespace": "slinky", "port": int64(443)}, service)
	var role struct{ Rules []any }
	if err := yaml.Unmarshal([]byte(read(t, "../../config/rbac/exporter/role.yaml")), &role); err != nil {
		t.Fatal(err)
	}
	same(t, "rights", role.Rules, at(t, find(t, all, "ClusterRole", exporterChart), "rules"))
	endpoints := at(t, find(t, all, "ServiceMonitor", exporterChart), "spec", "endpoints").([]any)
	same(t, "endpoints", []any{map[string]any{"port": "metrics", "path": "/metrics", "interval": "60s"}}, endpoints)
}

func TestExporterRefused(t *testing.T) {
	for values, want := range map[string]string{
		"":                                  "exporter.jwtKeySecret.name must name the Secret",
		"exporter: {token: {create: true}}": "exporter.token.create needs exporter.jwtKeySecret.name",
		"exporter: {secretName: a, jwtKeySecret: {name: b}}": "are both set",
		"exporter: {secretNam: a}":                           "secretNam",
		"exporter: {secretName: a, server: slurm:6820}":      "server",
		"exporter: {secretName: a, cacheFrequency: 5}":       "cacheFrequency",
		"exporter: {secretName: a, maxLabelValues: 0}":       "maxLabelValues",
	} {
		if out, err := template(t, exporterChart, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v\n%s", values, err, out)
		}
	}
	for _, values := range []string{"exporter: null", "exporter: {enabled: false, image: null}\ngrafana: null\nprometheusRule: null"} {
		if _, err := template(t, exporterChart, values); err != nil && !strings.Contains(err.Error(), "jwtKeySecret.name must name") {
			t.Errorf("%q: %v", values, err)
		}
	}
}
