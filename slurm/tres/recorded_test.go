package tres

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recorded returns what slurmrestd's recorded answers have in fields whose names begin with prefix.
func recorded(t testing.TB, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob("../rest/testdata/*/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	field := regexp.MustCompile(`"` + prefix + `[a-z_]*": ?("(?:[^"\\]|\\.)+")`)
	found := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range field.FindAllSubmatch(text, -1) {
			var s string
			if err := json.Unmarshal(m[1], &s); err != nil {
				t.Fatalf("%s: %s: %v", f, m[1], err)
			}
			found[s] = true
		}
	}
	if len(found) == 0 {
		t.Fatalf("no field %s... in the recorded answers", prefix)
	}
	return slices.Sorted(maps.Keys(found))
}

func TestRecorded(t *testing.T) {
	for _, s := range recorded(t, "tres") {
		if strings.HasPrefix(s, "gres/") {
			continue // a request, of which the next loop has the form
		}
		items, err := Parse(s)
		if got := Format(items); err != nil || got != s {
			t.Errorf("%q is printed as %q, %v", s, got, err)
		}
	}
	for _, s := range append(recorded(t, "gres"), recorded(t, "tres_per_")...) {
		list, err := ParseGRES(s)
		if err != nil || s != "N/A" && FormatGRES(list) != strings.TrimPrefix(s, "gres/") {
			t.Errorf("%q is printed as %q, %v", s, FormatGRES(list), err)
		}
	}
}
