package charts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

var update = flag.Bool("update", false, "write the golden files")

// root is the checkout.
const root = "../.."

func chart(name string) string { return filepath.Join(root, "charts", name) }

// helm finds helm, or skips the test.
func helm(t testing.TB) string {
	t.Helper()
	if os.Getenv("SLINKY_TEST_HELM") != "1" {
		t.Skip("needs helm: set SLINKY_TEST_HELM=1, and SLINKY_HELM to what \"slinky tools helm\" prints")
	}
	path := os.Getenv("SLINKY_HELM")
	if path == "" {
		t.Fatal("SLINKY_HELM is not set: it must be the path of helm")
	}
	return path
}

// run runs helm with a home of its own, so that nothing of the machine's settings gets in.
func run(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm(t), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// template renders a chart as release "slurm" or "slurm-operator" with the values in the text.
func template(t testing.TB, name, values string, args ...string) (string, error) {
	t.Helper()
	namespace := map[string]string{"slurm": "slurm"}[name]
	if namespace == "" {
		namespace = "slinky"
	}
	args = append([]string{"template", name, chart(name), "--namespace", namespace, "--values", "-"}, args...)
	return run(t, values, args...)
}

// render is template for values that must be taken.
func render(t testing.TB, name, values string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, name, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

func objects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	return apitest.Objects(t, "what helm rendered", []byte(text))
}

// find returns the object of a kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, u := range all {
		if u.GetKind() == kind && u.GetName() == name {
			return u
		}
	}
	t.Fatalf("there is no %s %s among %v", kind, name, names(all))
	return nil
}

// names are the objects as "Kind name".
func names(all []*unstructured.Unstructured) []string {
	var out []string
	for _, u := range all {
		out = append(out, u.GetKind()+" "+u.GetName())
	}
	return out
}

// at reads a field of an object by its path.
func at(t testing.TB, u *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		t.Fatalf("%s %s has no %v: %v", u.GetKind(), u.GetName(), path, err)
	}
	return v
}

// same compares, and shows what differs.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
