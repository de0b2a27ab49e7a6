package table

import (
	"strings"
	"testing"
)

func TestRender(t *testing.T) {
	tab := Table{Columns: []Column{{Title: "NAME", Least: 6}, {Title: "N", Right: true}, {Title: "EMPTY"}, {Title: "WHY", Least: 8}}}
	tab.Add(Cell{Text: "a"}, Cell{Text: "1"}, Cell{}, Cell{Text: "because of a long reason"})
	tab.Add(Cell{Text: "日本-node"}, Cell{Text: "1000"}, Cell{}, Cell{})
	for name, tc := range map[string]struct {
		style Style
		want  string
	}{
		"as wide as it is":           {Style{}, "NAME          N  WHY\na             1  because of a long reason\n日本-node  1000\n"},
		"cut to fit":                 {Style{Width: 30}, "NAME          N  WHY\na             1  because of a…\n日本-node  1000\n"},
		"never below what is needed": {Style{Width: 5}, "NAME       N  WHY\na          1  because…\n日本-…  1000\n"},
		"in colour":                  {Style{Colour: true}, "\x1b[1mNAME\x1b[0m          \x1b[1mN\x1b[0m  \x1b[1mWHY\x1b[0m\na             1  because of a long reason\n日本-node  1000\n"},
	} {
		got := tab.Render(tc.style)
		if got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
		for line := range strings.Lines(got) {
			if tc.style.Width >= 20 && Width(strings.TrimSuffix(line, "\n")) > tc.style.Width {
				t.Errorf("%s: too wide: %q", name, line)
			}
		}
	}
}

func TestPaintKeepsQuiet(t *testing.T) {
	if got := (Style{}).Paint(Red, "x"); got != "x" {
		t.Errorf("without colours: %q", got)
	}
	if got := (Style{Colour: true}).Paint(Red, ""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
