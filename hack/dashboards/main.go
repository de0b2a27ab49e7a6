// Command dashboards writes Slinky's Grafana dashboards into the exporter's chart, the one place where they are kept.
// What is in them is in boards.go.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for _, b := range boards() {
		text, err := json.MarshalIndent(b.grafana(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, b.name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// board is a dashboard.
type board struct {
	name, title string
	// variables are labels to choose by, each with the metric that has it.
	variables []variable
	rows      []row
}

type variable struct{ name, metric, label string }

type row struct {
	title  string
	height int
	panels []panel
}

type panel struct {
	title, kind, unit, about string
	queries                  []query
	// red is from which value on a number is shown red; 0 for never.
	red float64
}

type query struct{ expr, legend string }

type object = map[string]any

// width is Grafana's columns.
const width = 24

func (b board) grafana() object {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	list := []any{object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range b.variables {
		list = append(list, object{
			"name": v.name, "label": v.label, "type": "query", "datasource": source, "refresh": 2, "sort": 1,
			"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": []string{"All"}, "value": []string{"$__all"}},
			"query": object{"query": fmt.Sprintf("label_values(%s, %s)", v.metric, v.label), "refId": "v"},
		})
	}
	panels, id, y := []any{}, 0, 0
	for _, r := range b.rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": width, "h": 1}})
		y++
		w := width / len(r.panels)
		for i, p := range r.panels {
			id++
			panels = append(panels, p.grafana(id, source, object{"x": i * w, "y": y, "w": w, "h": r.height}))
		}
		y += r.height
	}
	return object{
		"uid": "slinky-" + b.name, "title": b.title, "tags": []string{"slinky", "slurm"}, "schemaVersion": 39, "version": 1, "editable": true,
		"graphTooltip": 1, "refresh": "30s", "time": object{"from": "now-6h", "to": "now"}, "timezone": "browser",
		"templating": object{"list": list}, "annotations": object{"list": []any{}}, "panels": panels,
		"links": []any{object{"title": "Slinky", "type": "dashboards", "tags": []string{"slinky"}, "asDropdown": true, "includeVars": false, "keepTime": true}},
	}
}

func (p panel) grafana(id int, source, at object) object {
	steps := []any{object{"color": "green", "value": nil}}
	if p.red > 0 {
		steps = append(steps, object{"color": "red", "value": p.red})
	}
	defaults := object{"unit": p.unit, "min": 0, "thresholds": object{"mode": "absolute", "steps": steps}}
	out := object{
		"id": id, "type": p.kind, "title": p.title, "description": p.about, "datasource": source, "gridPos": at,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}},
	}
	var targets []any
	for i, q := range p.queries {
		t := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "editorMode": "code"}
		if p.kind == "timeseries" {
			t["range"] = true
		} else {
			t["instant"] = true
		}
		if p.kind == "table" {
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	out["targets"] = targets
	switch p.kind {
	case "timeseries":
		defaults["custom"] = object{"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
		out["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case "stat":
		out["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "value", "graphMode": "area"}
	case "bargauge":
		out["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "displayMode": "gradient", "orientation": "horizontal"}
	case "table":
		out["options"] = object{"showHeader": true}
		out["transformations"] = []any{object{"id": "organize", "options": object{"excludeByName": object{"Time": true, "__name__": true, "job": true, "instance": true}}}}
	}
	return out
}
