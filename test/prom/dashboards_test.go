package prom

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const chartFiles = "../../charts/slurm-exporter/files"

// dashboard is what these tests look at of a Grafana dashboard.
type dashboard struct {
	UID, Title string
	Panels     []panel
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr, LegendFormat, RefID string }
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartFiles, "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	if len(out) != 6 {
		t.Fatalf("there are %d dashboards, want those of cluster, partitions, NodeSets, bridge, CPU driver, accounts", len(out))
	}
	return out
}

// Grafana shows a dashboard with two panels of one number, or one over another, without a word.
func TestDashboards(t *testing.T) {
	uids := map[string]string{}
	for name, d := range dashboards(t) {
		if uids[d.UID] != "" || d.UID == "" || !strings.HasPrefix(d.Title, "Slinky / ") {
			t.Errorf("%s: uid %q is that of %q, or the title %q is wrong", name, d.UID, uids[d.UID], d.Title)
		}
		uids[d.UID] = name
		if len(d.Templating.List) == 0 || d.Templating.List[0].Name != "datasource" {
			t.Errorf("%s: the data source can't be chosen", name)
		}
		ids, titles := map[int]bool{}, map[string]bool{}
		cells := map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: %s has the id %d of another panel", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if cells[[2]int{x, y}] != "" || x >= 24 {
						t.Errorf("%s: %s lies over %q or beyond the edge", name, p.Title, cells[[2]int{x, y}])
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				titles = map[string]bool{}
				continue
			}
			if titles[p.Title] || p.Title == "" || p.Datasource.UID != "${datasource}" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q has the title of another, or lacks data source, unit or query", name, p.Title)
			}
			titles[p.Title] = true
			for _, q := range p.Targets {
				if q.LegendFormat == "" && p.Type != "table" {
					t.Errorf("%s: a line of %q has no name", name, p.Title)
				}
			}
		}
	}
}

// rule is one of the chart's rules.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFiles, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.UnmarshalStrict(text, &struct{ Groups []any }{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// Each alert says what is wrong and what to do, and is shown to fire and to be quiet.
func TestAlerts(t *testing.T) {
	promtool := program(t, "promtool")
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("alert %s lacks a severity, a summary or a description", r.Alert)
		}
		for _, what := range []string{" fires\n", " is quiet\n"} {
			if !strings.Contains(string(cases), "name: "+r.Alert+what) {
				t.Errorf("no case shows that %s%s", r.Alert, strings.TrimSpace(what))
			}
		}
	}
	dir := t.TempDir()
	file, err := os.ReadFile(filepath.Join(chartFiles, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"rules.yaml": file, "alerts.yaml": cases} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		if out, err := run(t.Context(), dir, append([]string{promtool}, args...)...); err != nil || !strings.Contains(out, "SUCCESS") {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// queries are all of the dashboards, as Grafana would send them with everything chosen, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, d := range dashboards(t) {
		replace := []string{"$__rate_interval", "15s"}
		for _, v := range d.Templating.List[1:] {
			replace = append(replace, "$"+v.Name, ".*")
			q, ok := v.Query.(map[string]any)
			if !ok {
				t.Fatalf("%s: variable %s has no query", name, v.Name)
			}
			metric, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprint(q["query"]), "label_values("), ",")
			out[name+": variable "+v.Name] = metric
		}
		for _, p := range d.Panels {
			for i, q := range p.Targets {
				out[fmt.Sprintf("%s: %s, %d", name, p.Title, i)] = strings.NewReplacer(replace...).Replace(q.Expr)
			}
		}
	}
	return out
}
