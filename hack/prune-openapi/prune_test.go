package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testDocument() document {
	var d document
	d.Info.Version = "1"
	d.Paths = map[string]map[string]any{"/slurm/v1/ping/": {"get": nil}}
	d.Components.Schemas = map[string]schema{
		"v1_job": {"type": "object", "required": []any{"id"}, "properties": map[string]any{
			"id":    map[string]any{"type": "integer", "format": "int32"},
			"limit": map[string]any{"$ref": "#/components/schemas/v1_uint32_no_val_struct"},
			"state": map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []any{"A"}}},
			"other": map[string]any{"type": "string"},
		}},
		"v1_uint32_no_val_struct": {"type": "object", "properties": map[string]any{}},
	}
	return d
}

func TestPrune(t *testing.T) {
	p := plan{
		Operations: map[string][]string{"slurm/ping/": {"get", "?put"}},
		Schemas:    []string{"job", "?new"},
		Properties: map[string][]string{"job": {"id", "limit", "state", "?gone"}, "?new": {"x"}},
	}
	got, err := prune(testDocument(), p, "v1")
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]any{"path": dialectImport}
	want := map[string]schema{
		"job": {"type": "object", "properties": schema{
			"id":    schema{"type": "integer", "format": "int64"},
			"limit": schema{"$ref": "#/components/schemas/uint32_no_val_struct"},
			"state": schema{"type": "array", "items": schema{"type": "string"}, "x-go-type": "dialect.Strings", "x-go-type-import": imported},
		}},
		"uint32_no_val_struct": {"type": "object", "x-go-type": "dialect.Number", "x-go-type-import": imported},
	}
	if diff := cmp.Diff(want, got["components"].(map[string]any)["schemas"]); diff != "" {
		t.Error(diff)
	}
}

func TestPruneTellsWhatIsMissing(t *testing.T) {
	p := plan{
		Operations: map[string][]string{"slurm/ping/": {"post"}},
		Schemas:    []string{"job", "node"},
		Properties: map[string][]string{"job": {"gone"}, "never": {"x"}},
	}
	_, err := prune(testDocument(), p, "v1")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"operation post /slurm/v1/ping/", "schema v1_node", "property gone of v1_job", "schema never"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q doesn't name %q", err, want)
		}
	}
}
