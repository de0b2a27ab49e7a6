// Command apidocs writes docs/api.md: every field of every kind, from the generated custom
// resource definitions, so that the page says what the API server does.
//
//	go run ./hack/apidocs config/crd docs/api.md
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apidocs CRD-FOLDER FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}

func run(folder, file string) error {
	text, err := page(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func page(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("there are no custom resource definitions in %s", folder)
	}
	kinds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return "", fmt.Errorf("read %s: %w", f, err)
		}
		kinds[crd.Spec.Names.Kind] = crd
	}
	return render(kinds), nil
}

// order is that in which somebody who makes a cluster needs the kinds; others follow.
func order(kinds map[string]*apiextensionsv1.CustomResourceDefinition) []string {
	names := []string{"Controller", "RestApi", "NodeSet", "LoginSet", "Accounting", "Token"}
	names = slices.DeleteFunc(names, func(n string) bool { return kinds[n] == nil })
	var rest []string
	for n := range kinds {
		if !slices.Contains(names, n) {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}

func anchor(kind string) string { return strings.ToLower(kind) }
