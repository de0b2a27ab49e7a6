package archtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// goMod is the part of "go mod edit -json" that decides which version is built.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path, Version string }
	}
}

// versions gives each required module with the version that is built.
func (m goMod) versions() map[string]string {
	v := map[string]string{}
	for _, r := range m.Require {
		v[r.Path] = r.Version
	}
	for _, r := range m.Replace {
		if _, ok := v[r.Old.Path]; ok {
			v[r.Old.Path] = r.New.Path + "@" + r.New.Version
			if r.New.Path == r.Old.Path {
				v[r.Old.Path] = r.New.Version
			}
		}
	}
	return v
}

type difference struct{ path, first, second string }

func differences(first, second map[string]string) []difference {
	var all []difference
	for path, v := range first {
		if w, ok := second[path]; ok && v != w {
			all = append(all, difference{path, v, w})
		}
	}
	return all
}

// The main module and that of the box's tools compile the same Kubernetes. One
// version apart, and all of it would be compiled twice.
func TestModulesShareVersions(t *testing.T) {
	main := readGoMod(t, "go.mod").versions()
	tools := readGoMod(t, "internal/box/tools/go.mod").versions()
	if tools["k8s.io/kubernetes"] == "" {
		t.Error("internal/box/tools/go.mod does not require k8s.io/kubernetes: has it moved?")
	}
	for _, d := range differences(main, tools) {
		t.Errorf("%s is %s in go.mod and %s in internal/box/tools/go.mod: use one version", d.path, d.first, d.second)
	}
}

func TestModuleVersionsCanDiffer(t *testing.T) {
	var m goMod
	err := json.Unmarshal([]byte(`{
		"Require": [{"Path": "a.example/x", "Version": "v1.0.0"}, {"Path": "a.example/y", "Version": "v1.0.0"}],
		"Replace": [{"Old": {"Path": "a.example/y"}, "New": {"Path": "a.example/y", "Version": "v1.2.0"}}]
	}`), &m)
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"a.example/x": "v1.0.1", "a.example/y": "v1.2.0", "a.example/z": "v9.0.0"}
	got := differences(m.versions(), other)
	if len(got) != 1 || got[0] != (difference{"a.example/x", "v1.0.0", "v1.0.1"}) {
		t.Errorf("differences: %v, want only a.example/x", got)
	}
}

func readGoMod(t *testing.T, name string) goMod {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root(t), name)).Output()
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	var m goMod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return m
}
