package apitest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// otherKinds are the files of other projects' modules that define their custom resources.
func otherKinds() map[string]string {
	return map[string]string{
		"github.com/cert-manager/cert-manager": "deploy/crds/cert-manager.io_*.yaml",
		"github.com/kedacore/keda/v2":          "config/crd/bases/keda.sh_*.yaml",
		"github.com/prometheus-operator/prometheus-operator": "example/prometheus-operator-crd/*monitors.yaml " +
			"example/prometheus-operator-crd/*prometheusrules.yaml",
		"sigs.k8s.io/jobset":            "config/components/crd/bases/*.yaml",
		"sigs.k8s.io/lws":               "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
		"sigs.k8s.io/scheduler-plugins": "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
	}
}

// InstallOthers installs the custom resources of other projects that charts and docs have objects
// of, as their releases define them. The versions are in the module kinds.
func (s *Server) InstallOthers(t testing.TB) {
	t.Helper()
	files := otherKinds()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"mod", "download", "-json"}, slices.Sorted(maps.Keys(files))...)...)
	cmd.Dir = filepath.Join(s.root, "internal", "apitest", "kinds")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	options := envtest.CRDInstallOptions{ErrorIfPathMissing: true}
	for modules := json.NewDecoder(bytes.NewReader(out)); modules.More(); {
		var module struct{ Path, Dir string }
		if err := modules.Decode(&module); err != nil {
			t.Fatal(err)
		}
		for _, pattern := range strings.Fields(files[module.Path]) {
			found, err := filepath.Glob(filepath.Join(module.Dir, pattern))
			if err != nil || len(found) == 0 {
				t.Fatalf("%s has no %s: %v", module.Path, pattern, err)
			}
			options.Paths = append(options.Paths, found...)
		}
	}
	if _, err := envtest.InstallCRDs(s.Config, options); err != nil {
		t.Fatalf("install the custom resources of other projects: %v", err)
	}
}
