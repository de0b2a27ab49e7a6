package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is what "go list" says about a package; Imports and Deps are those of the
// files that ship, without the tests.
type pkg struct {
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
}

// broken says which imports of p the rule forbids, one sentence each.
func (r rule) broken(p pkg) []string {
	if !covers(r.For, p.ImportPath) || covers(r.Except, p.ImportPath) {
		return nil
	}
	var found []string
	say := func(verb, path string) {
		found = append(found, fmt.Sprintf("%s %s %s: rule %q: %s", p.ImportPath, verb, path, r.name, r.why))
	}
	for _, i := range p.Imports {
		if r.Only != nil && !covers(r.Only, i) || covers(r.Never, i) {
			say("imports", i)
		}
	}
	for _, d := range p.Deps {
		if covers(r.NeverLinked, d) {
			say("links", d)
			break // one package of a tree is enough to say
		}
	}
	return found
}

func TestImports(t *testing.T) {
	packages := list(t)
	rules := importRules()
	for _, p := range packages {
		for _, r := range rules {
			for _, b := range r.broken(p) {
				t.Error(b)
			}
		}
	}
}

// A rule whose packages all moved away would pass for ever.
func TestRulesFindTheirPackages(t *testing.T) {
	packages := list(t)
	for _, want := range []string{"api", "slurm", "one REST version at a time", "k8s.io/kubernetes"} {
		i := slices.IndexFunc(importRules(), func(r rule) bool { return r.name == want })
		if i < 0 {
			t.Errorf("there is no rule %q any more", want)
			continue
		}
		r := importRules()[i]
		if !slices.ContainsFunc(packages, func(p pkg) bool { return covers(r.For, p.ImportPath) }) {
			t.Errorf("rule %q covers no package", want)
		}
	}
}

func TestEachRuleCanFail(t *testing.T) {
	in := func(path string) string { return module + "/" + path }
	cases := map[string]pkg{
		"api":                          {ImportPath: in("api/v1beta1"), Imports: []string{"k8s.io/client-go/kubernetes"}},
		"slurm":                        {ImportPath: in("slurm/cache"), Imports: []string{"k8s.io/api/core/v1"}},
		"slurm/rest":                   {ImportPath: in("slurm/rest/v0045"), Deps: []string{"k8s.io/klog/v2"}},
		"one REST version at a time":   {ImportPath: in("slurm/cache"), Imports: []string{in("slurm/rest/v0045")}},
		"plan":                         {ImportPath: in("internal/plan/nodeset"), Imports: []string{"os"}},
		"observe and act":              {ImportPath: in("internal/act"), Imports: []string{in("internal/operator")}},
		"bridge/scheduler":             {ImportPath: in("internal/bridge/scheduler"), Imports: []string{"net/http"}},
		"k8s.io/kubernetes":            {ImportPath: in("cmd/operator"), Deps: []string{"k8s.io/kubernetes/pkg/api/v1/pod"}},
		"tests stay out of production": {ImportPath: in("internal/operator"), Deps: []string{in("slurm/slurmtest")}},
		"public packages":              {ImportPath: in("slurm"), Imports: []string{in("internal/plan/explain")}},
		"commands are ends":            {ImportPath: in("internal/box"), Imports: []string{in("cmd/slinky")}},
		"operator stands alone":        {ImportPath: in("internal/operator"), Imports: []string{in("internal/bridge/scheduler")}},
		"bridge stands alone":          {ImportPath: in("internal/bridge/submit"), Imports: []string{in("internal/exporter")}},
		"dracpu stands alone":          {ImportPath: in("internal/dracpu"), Imports: []string{in("internal/operator/webhook")}},
		"exporter stands alone":        {ImportPath: in("internal/exporter"), Imports: []string{in("internal/dracpu")}},
	}
	for _, r := range importRules() {
		p, ok := cases[r.name]
		if !ok {
			t.Errorf("rule %q has no case that breaks it", r.name)
			continue
		}
		if len(r.broken(p)) == 0 {
			t.Errorf("rule %q finds nothing wrong with %+v", r.name, p)
		}
	}
}

func TestRulesLetGoodImportsPass(t *testing.T) {
	in := func(path string) string { return module + "/" + path }
	good := []pkg{
		{ImportPath: in("api/v1beta1"), Imports: []string{"fmt", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/runtime"}},
		{ImportPath: in("slurm/rest/v0045"), Imports: []string{"net/http", in("slurm"), "github.com/oapi-codegen/runtime/types"}},
		{ImportPath: in("internal/plan/workload"), Imports: []string{"sort", in("slurm"), in("slurm/hostlist"), in("api/v1beta1")}},
		{ImportPath: in("internal/bridge/scheduler"), Deps: []string{"net/http", "k8s.io/kubernetes/pkg/scheduler"}},
		{ImportPath: in("slurm/slurmtest"), Imports: []string{"testing", in("slurm")}},
	}
	for _, p := range good {
		for _, r := range importRules() {
			for _, b := range r.broken(p) {
				t.Error(b)
			}
		}
	}
}

// forbiddenNames say nothing about what is inside.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "types", "shared"}

func badName(p pkg) string {
	for _, name := range []string{p.Name, path.Base(p.ImportPath)} {
		if slices.Contains(forbiddenNames, name) {
			return fmt.Sprintf("%s: the name %q says nothing: name a package after what it is about", p.ImportPath, name)
		}
	}
	return ""
}

func TestPackageNames(t *testing.T) {
	for _, p := range list(t) {
		if bad := badName(p); bad != "" {
			t.Error(bad)
		}
	}
	for _, name := range forbiddenNames {
		if badName(pkg{ImportPath: module + "/internal/" + name, Name: name}) == "" {
			t.Errorf("the name %q passes", name)
		}
	}
}

// list asks the go command for all packages of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Name,Imports,Deps", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages with %v: %v\n%s", cmd.Args, err, stderr.Bytes())
	}
	var packages []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the list of packages: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 || !strings.HasPrefix(packages[0].ImportPath, module) {
		t.Fatalf("the list of packages is not that of %s: %v", module, packages)
	}
	return packages
}

// root is the folder of the module; tests run in the folder of their package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
