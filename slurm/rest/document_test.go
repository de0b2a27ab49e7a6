package rest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type openAPI struct {
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

// schemas reads the schemas of a pruned document, without the descriptions.
func schemas(t *testing.T, data []byte) map[string]map[string]any {
	t.Helper()
	var doc openAPI
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		dropDescriptions(s)
	}
	return doc.Components.Schemas
}

func dropDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, child := range v {
			dropDescriptions(child)
		}
	case []any:
		for _, child := range v {
			dropDescriptions(child)
		}
	}
}

func document(t *testing.T, version string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(strings.ReplaceAll(version, ".", ""), "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestVersionsHaveOneShape is why v0044 has no types of its own: where it differs
// from v0.0.45, its adapter must say so.
func TestVersionsHaveOneShape(t *testing.T) {
	older, newer := schemas(t, document(t, "v0.0.44")), schemas(t, document(t, "v0.0.45"))
	delete(older, "controller_ping") // read by v0044 itself
	delete(newer, "controller_ping")
	properties := newer["partition_info"]["properties"].(map[string]any)
	delete(properties, "flags") // new in v0.0.45; without it no partition counts as the default
	if diff := cmp.Diff(older, newer, cmp.Transformer("compact", compact)); diff != "" {
		t.Error(diff)
	}
}

// TestOldestVersionIsAPart is why v0043 has no types of its own either.
func TestOldestVersionIsAPart(t *testing.T) {
	older, newer := schemas(t, document(t, "v0.0.43")), schemas(t, document(t, "v0.0.44"))
	// What it lacks: an allocation's layout, new nodes, and the SLUID of a job.
	for _, name := range []string{"node_resource_layout", "node_gres_layout", "node_gres_layout_list", "openapi_create_node_req", "slurm_step_id"} {
		delete(newer, name)
	}
	delete(newer["job_info"]["properties"].(map[string]any), "step_id")
	delete(newer["job_info"]["properties"].(map[string]any), "submit_line")
	if diff := cmp.Diff(older, newer, cmp.Transformer("compact", compact)); diff != "" {
		t.Error(diff)
	}
}

func compact(s map[string]any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	if err := enc.Encode(s); err != nil {
		return err.Error()
	}
	return b.String()
}
