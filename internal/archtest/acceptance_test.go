package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/acceptance.md's last column")

// checkName finds the numbers in names such as TestCheck26ScaleIn and "check 26: scale in".
var checkName = regexp.MustCompile(`(?:\bTestChecks?|"[Cc]hecks? )(\d+)((?:And\d+|(?:, | and )\d+)*)`)

// digits are one number in what checkName found.
var digits = regexp.MustCompile(`\d+`)

// TestAcceptance holds docs/acceptance.md against the tests: each check has a test,
// each test's number is a check, and the page names them.
func TestAcceptance(t *testing.T) {
	top := root(t)
	shown := checksShown(t, top)
	page := filepath.Join(top, "docs", "acceptance.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	known := map[int]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		number, err := strconv.Atoi(strings.TrimPrefix(cells[0], "| "))
		if err != nil || len(cells) < 2 {
			lines = append(lines, line)
			continue
		}
		known[number] = true
		if len(shown[number]) == 0 {
			t.Errorf("check %d has no test: name one TestCheck%d… or \"check %d: …\"", number, number, number)
		}
		lines = append(lines, fmt.Sprintf("| %d | %s | %s |", number, cells[1], strings.Join(shown[number], ", ")))
	}
	for number, tests := range shown {
		if !known[number] {
			t.Errorf("%v name check %d, which docs/acceptance.md doesn't have", tests, number)
		}
	}
	want := strings.Join(lines, "\n")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/acceptance.md names other tests than there are (go test ./internal/archtest -run TestAcceptance -update):\n%s", diff)
	}
}

// checksShown returns the functions that name each check, as package.Function.
func checksShown(t *testing.T, root string) map[int][]string {
	t.Helper()
	shown := map[int][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "archtest" {
			return nil
		}
		return addChecks(shown, root, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tests := range shown {
		slices.Sort(tests)
	}
	return shown
}

func addChecks(shown map[int][]string, root, path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a test file: %w", err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return fmt.Errorf("parse a test file: %w", err)
	}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("place a test file: %w", err)
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		body := source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset]
		name := fmt.Sprintf("`%s` %s", folder, f.Name.Name)
		for _, number := range checkNumbers(string(body)) {
			if !slices.Contains(shown[number], name) {
				shown[number] = append(shown[number], name)
			}
		}
	}
	return nil
}

// checkNumbers returns the checks that a function's name and the names of its subtests tell.
func checkNumbers(source string) []int {
	var numbers []int
	for _, match := range checkName.FindAllStringSubmatch(source, -1) {
		for _, number := range digits.FindAllString(match[1]+match[2], -1) {
			if n, err := strconv.Atoi(number); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}
