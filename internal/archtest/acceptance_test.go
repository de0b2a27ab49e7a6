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

var update = flag.Bool("update", false, "write the last column of the pages of checks")

// pages are those of checks, with how a test says which of them it shows: in its name or
// that of a subtest, as TestCheck26ScaleIn and "check 26: scale in", or in its comment, as "CPU checks 1 and 3".
var pages = map[string]struct {
	name, comment *regexp.Regexp
}{
	"acceptance.md":     {name: regexp.MustCompile(`(?:\bTestChecks?|"[Cc]hecks? )(\d+)((?:And\d+|(?:, | and )\d+)*)`)},
	"dra-cpu-checks.md": {comment: regexp.MustCompile(`\bCPU checks?\s+(\d+)((?:(?:,|\s+and)\s+\d+)*)`)},
}

// notDone begins the last column of a check that nothing shows.
const notDone = "not done"

// digits are one number in what was found.
var digits = regexp.MustCompile(`\d+`)

// TestAcceptance holds the pages of checks against the tests: each check has a test, or
// says that it is not done, each test's number is a check, and the page names them.
func TestAcceptance(t *testing.T) {
	for name := range pages {
		t.Run(name, func(t *testing.T) { acceptance(t, name) })
	}
}

func acceptance(t *testing.T, name string) {
	top := root(t)
	shown := checksShown(t, top, name)
	page := filepath.Join(top, "docs", name)
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
		last := strings.Join(shown[number], ", ")
		if len(cells) > 2 && strings.HasPrefix(cells[2], notDone) {
			if last != "" {
				t.Errorf("check %d is not done, and shown by %s", number, last)
			}
			lines = append(lines, line)
			continue
		}
		if last == "" {
			t.Errorf("check %d has no test that names it", number)
		}
		lines = append(lines, fmt.Sprintf("| %d | %s | %s |", number, strings.TrimSuffix(cells[1], " |"), last))
	}
	for number, tests := range shown {
		if !known[number] {
			t.Errorf("%v name check %d, which docs/%s doesn't have", tests, number, name)
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
		t.Errorf("docs/%s names other tests than there are (go test ./internal/archtest -run TestAcceptance -update):\n%s", name, diff)
	}
}

// checksShown returns the functions that name each check, as package.Function.
func checksShown(t *testing.T, root, page string) map[int][]string {
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
		return addChecks(shown, root, path, page)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tests := range shown {
		slices.Sort(tests)
	}
	return shown
}

func addChecks(shown map[int][]string, root, path, page string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a test file: %w", err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
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
		text, say := f.Doc.Text(), pages[page].comment
		if say == nil {
			text, say = string(source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset]), pages[page].name
		}
		name := fmt.Sprintf("`%s` %s", folder, f.Name.Name)
		for _, number := range checkNumbers(say, text) {
			if !slices.Contains(shown[number], name) {
				shown[number] = append(shown[number], name)
			}
		}
	}
	return nil
}

// checkNumbers returns the checks that a text tells.
func checkNumbers(say *regexp.Regexp, text string) []int {
	var numbers []int
	for _, match := range say.FindAllStringSubmatch(text, -1) {
		for _, number := range digits.FindAllString(match[1]+match[2], -1) {
			if n, err := strconv.Atoi(number); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}
