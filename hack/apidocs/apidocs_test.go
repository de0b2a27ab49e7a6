package main

import (
	"os"
	"strings"
	"testing"
)

// The page in the repository is that of the definitions in it, and leaves out no field.
func TestPageIsCurrent(t *testing.T) {
	want, err := page("../../config/crd")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/api.md is not current: run make gen")
	}
	for _, text := range []string{
		"| `jwksKeyRef` | `name` and `key` of a ConfigMap |", "| `persistence.existingClaim` |", "| `updateStrategy.rollingUpdate.maxUnavailable` | number or percentage | `25%` |",
		"| `controllerRef` | `name` of an object |  | *Required.* ", "can't be changed",
	} {
		if !strings.Contains(want, text) {
			t.Errorf("the page has no %q", text)
		}
	}
}
