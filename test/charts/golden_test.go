package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGolden renders each file testdata/<chart>/<case>.yaml, and each example of the
// chart, and compares with the golden file beside it. These are the facts that the
// published charts' own suites check: names, kinds, references, and what a value does.
func TestGolden(t *testing.T) {
	helm(t)
	for _, c := range cases(t) {
		t.Run("check 52: "+c.chart+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			got, err := template(t, c.chart, c.values)
			if err != nil {
				t.Fatal(err)
			}
			got = tidy(got)
			path := filepath.Join("testdata", c.chart, c.name+".golden.yaml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			same(t, path, read(t, path), got)
		})
	}
}

type testCase struct{ chart, name, values string }

// cases are the values files of the tests and the examples that the charts come with.
func cases(t testing.TB) []testCase {
	t.Helper()
	var out []testCase
	for _, name := range []string{"slurm", "slurm-operator", "slurm-bridge"} {
		for _, pattern := range []string{filepath.Join("testdata", name, "*.yaml"), filepath.Join(chart(name), "examples", "*.yaml")} {
			files, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if !strings.HasSuffix(file, ".golden.yaml") {
					out = append(out, testCase{name, strings.TrimSuffix(filepath.Base(file), ".yaml"), read(t, file)})
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no cases")
	}
	return out
}

// tidy leaves out empty lines, and the rules of roles: these are generated from the
// programs, and TestOneSource compares them.
func tidy(text string) string {
	var out strings.Builder
	rules := false
	for line := range strings.Lines(text) {
		rules = line == "rules:\n" || rules && !strings.HasPrefix(line, "---")
		if strings.TrimSpace(line) != "" && !rules {
			out.WriteString(line)
		}
	}
	return out.String()
}

// A second rendering changes nothing: tools that compare see no change.
func TestSameValuesSameBytes(t *testing.T) {
	helm(t)
	for _, name := range []string{"slurm", "slurm-operator", "slurm-bridge"} {
		t.Run(name, func(t *testing.T) {
			values := read(t, "testdata", name, "everything.yaml")
			first, err := template(t, name, values)
			if err != nil {
				t.Fatal(err)
			}
			second, err := template(t, name, values)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the same values twice", first, second)
		})
	}
}
