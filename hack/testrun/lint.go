package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const linter = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"

const shallow = "errcheck,errorlint,forbidigo,funlen,ineffassign,misspell,nolintlint"

func lint(ctx context.Context, r *runner) []result {
	results := []result{r.drift(ctx)}
	tool := filepath.Join(r.root, "bin", "golangci-lint")
	built := r.check(ctx, "golangci-lint builds", "lint-build", "go", "build", "-modfile=hack/tools/lint/go.mod", "-o", tool, linter)
	results = append(results, built)
	if built.outcome == passed {
		// The box's tools are a module of their own that links all of Kubernetes,
		// so they get only the linters that need not look into their imports.
		tools := filepath.Join(r.root, "internal/box/tools")
		results = append(results,
			r.check(ctx, "golangci-lint, with gofmt and go vet", "lint", tool, "run", "./..."),
			r.checkIn(ctx, tools, "golangci-lint, the box's tools", "lint-tools", tool, "run", "--enable-only="+shallow, "./..."))
	}
	return append(results, r.goTest(ctx, "lint-arch", false, nil, archtest)...)
}

const archtest = module + "/internal/archtest"

// drift writes all generated files anew, in a copy of the repository, and
// compares: they must say the same as those in the repository.
func (r *runner) drift(ctx context.Context) result {
	const name = "generated files are up to date"
	start := r.now()
	var output bytes.Buffer
	changed, err := r.regenerate(ctx, &output)
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("run make gen; it changes %s", strings.Join(changed, ", "))
	}
	return r.checked(name, start, output.String(), err)
}

func (r *runner) regenerate(ctx context.Context, output *bytes.Buffer) ([]string, error) {
	tmp, err := os.MkdirTemp("", "slinky-gen-")
	if err != nil {
		return nil, fmt.Errorf("copy the repository: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := copyTree(r.root, tmp); err != nil {
		return nil, fmt.Errorf("copy the repository: %w", err)
	}
	before, err := sums(tmp)
	if err != nil {
		return nil, err
	}
	if err := r.commandIn(ctx, tmp, "lint-gen", nil, output, "hack/gen.sh"); err != nil {
		return nil, err
	}
	after, err := sums(tmp)
	if err != nil {
		return nil, err
	}
	return differing(before, after), nil
}

// differing names the files that are not the same on both sides, in order.
func differing(before, after map[string][sha256.Size]byte) []string {
	var names []string
	for name, sum := range after {
		if before[name] != sum {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func sums(dir string) (map[string][sha256.Size]byte, error) {
	all := map[string][sha256.Size]byte{}
	err := eachSource(dir, func(name string, content []byte, _ fs.FileMode) error {
		all[name] = sha256.Sum256(content)
		return nil
	})
	return all, err
}

func copyTree(from, to string) error {
	return eachSource(from, func(name string, content []byte, mode fs.FileMode) error {
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, mode.Perm())
	})
}

// eachSource calls f with each regular file below dir, but for git's and what is built.
func eachSource(dir string, f func(name string, content []byte, mode fs.FileMode) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == "bin") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(name, content, info.Mode())
	})
}
