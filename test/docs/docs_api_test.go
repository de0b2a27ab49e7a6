// Package docs tests that what the documentation shows works.
package docs

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/apitest"
)

// block is YAML in a file, and where it begins.
type block struct {
	file string
	line int
	text string
}

func (b block) at(line int) string { return fmt.Sprintf("%s:%d", b.file, b.line+line) }

// TestManifests applies every manifest that the documentation and the examples show.
func TestManifests(t *testing.T) {
	server := apitest.Start(t, "feature-gates=GenericWorkload=true", "runtime-config=api/all=true")
	server.InstallOthers(t)
	admin, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blocks := collect(t, os.DirFS("../.."))
	if len(blocks) < 3 {
		t.Fatalf("found %d blocks of YAML only", len(blocks))
	}
	for _, b := range blocks {
		t.Run(b.at(0), func(t *testing.T) {
			for line, text := range documents(b.text) {
				apply(t, admin, b.at(line), text)
			}
		})
	}
}

// collect finds the YAML in README.md, docs and examples, sorted.
func collect(t *testing.T, root fs.FS) []block {
	t.Helper()
	var out []block
	for _, dir := range []string{"README.md", "docs", "examples"} {
		err := fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			switch filepath.Ext(name) {
			case ".yaml", ".yml":
				out = append(out, block{name, 1, string(text)})
			case ".md":
				out = append(out, fenced(name, string(text))...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// fenced finds the blocks that begin with "```yaml". One that begins with "```yaml values" is
// of a chart, and is shown by the chart's own tests.
func fenced(file, text string) []block {
	var out []block
	var inside *block
	fence, n := "", 0
	for line := range strings.Lines(text) {
		n++
		word := strings.TrimSpace(line)
		switch {
		case fence == "" && strings.HasPrefix(word, "```"):
			fence = word[:len(word)-len(strings.TrimLeft(word, "`"))]
			if info := strings.Fields(strings.TrimLeft(word, "`")); len(info) == 1 && (info[0] == "yaml" || info[0] == "yml") {
				inside = &block{file: file, line: n + 1}
			}
		case fence != "" && word == fence:
			if inside != nil {
				out = append(out, *inside)
			}
			fence, inside = "", nil
		case inside != nil:
			inside.text += line
		}
	}
	return out
}

// documents splits YAML, by the line on which each begins.
func documents(text string) map[int]string {
	out := map[int]string{}
	begin, n := 0, 0
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \r\n") == "---" {
			begin = n + 1
		} else {
			out[begin] += line
		}
		n++
	}
	maps.DeleteFunc(out, func(_ int, text string) bool { return strings.TrimSpace(withoutComments(text)) == "" })
	return out
}

func withoutComments(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func apply(t *testing.T, admin client.Client, at, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &u.Object); err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	if u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
		t.Errorf("%s: it is no complete manifest, for it has no kind, apiVersion or name; chart values begin with \"```yaml values\"", at)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := prepare(ctx, admin, u); err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("docs"), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		t.Errorf("%s: %s %s: %v", at, u.GetKind(), u.GetName(), err)
	}
}

// prepare makes the namespace of a manifest.
func prepare(ctx context.Context, admin client.Client, u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind()
	mapping, err := admin.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return nil
	}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	err = admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.GetNamespace()}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func TestFenced(t *testing.T) {
	text := "# x\n```yaml\na: 1\n---\n# only a comment\n---\nb: 2\n```\n```sh\n```\n````yaml\n```\n````\n```yaml values\nc: 3\n```\n"
	blocks := fenced("f.md", text)
	if len(blocks) != 2 || blocks[0].at(0) != "f.md:3" || blocks[1].text != "```\n" {
		t.Fatalf("got %+v", blocks)
	}
	parts := documents(blocks[0].text)
	if len(parts) != 2 || parts[0] != "a: 1\n" || parts[4] != "b: 2\n" {
		t.Errorf("got %+v", parts)
	}
}
