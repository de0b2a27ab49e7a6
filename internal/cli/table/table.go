// Package table lays text out for people: columns as wide as they need to be, cut to the
// terminal where there is one, and colours where they are wanted.
package table

import (
	"strings"
	"unicode"
)

// Colour is how a text is set off. None leaves it plain.
type Colour string

// Colours, as the parameters of a terminal's SGR sequence.
const (
	None   Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Blue   Colour = "36"
)

// Style is what the reader's terminal can do. The zero value is for a file or a pipe.
type Style struct {
	// Width is that of the terminal, 0 for as wide as the text is.
	Width  int
	Colour bool
}

// Paint returns a text in a colour, if colours are wanted.
func (s Style) Paint(c Colour, text string) string {
	if !s.Colour || c == None || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Column is a column of a table.
type Column struct {
	Title string
	// Right aligns its cells at their ends, as numbers are.
	Right bool
	// Least is how narrow it may be cut where the terminal is too narrow; 0 for never.
	Least int
}

// Cell is a text of one line.
type Cell struct {
	Text   string
	Colour Colour
}

// Table is rows below titles.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Add adds a row, with a cell for each column.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// gap is between columns.
const gap = 2

// Render returns the table's lines. A column that is empty in all rows is left out.
func (t *Table) Render(s Style) string {
	width := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		for _, row := range t.rows {
			width[i] = max(width[i], Width(row[i].Text))
		}
		if width[i] > 0 {
			width[i] = max(width[i], Width(c.Title))
		}
	}
	t.fit(width, s.Width)
	var b strings.Builder
	titles := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = Cell{c.Title, Bold}
	}
	t.line(&b, s, width, titles)
	for _, row := range t.rows {
		t.line(&b, s, width, row)
	}
	return b.String()
}

// fit takes from the columns that may be cut, the widest first, until the table fits.
func (t *Table) fit(width []int, most int) {
	if most <= 0 {
		return
	}
	total := -gap
	for _, w := range width {
		if w > 0 {
			total += w + gap
		}
	}
	for total > most {
		widest := -1
		for i, c := range t.Columns {
			if c.Least > 0 && width[i] > c.Least && (widest < 0 || width[i]-c.Least > width[widest]-t.Columns[widest].Least) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		width[widest]--
		total--
	}
}

func (t *Table) line(b *strings.Builder, s Style, width []int, row []Cell) {
	var line strings.Builder
	pending := 0
	for i, c := range row {
		if width[i] == 0 {
			continue
		}
		text := Cut(c.Text, width[i])
		rest := width[i] - Width(text)
		if t.Columns[i].Right {
			pending, rest = pending+rest, 0
		}
		if text != "" {
			line.WriteString(strings.Repeat(" ", pending))
			line.WriteString(s.Paint(c.Colour, text))
			pending = 0
		}
		pending += rest + gap
	}
	b.WriteString(line.String())
	b.WriteByte('\n')
}

// Cut shortens a text to a width, with an ellipsis at its end.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	used := 0
	for i, r := range text {
		w := runeWidth(r)
		if used+w > width-1 {
			return text[:i] + "…"
		}
		used += w
	}
	return text
}

// Width is how many columns of a terminal a text takes.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// wide are the runes that take two columns (UAX #11, W and F), in large steps.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115F, Stride: 1}, {Lo: 0x2E80, Hi: 0x303E, Stride: 1}, {Lo: 0x3041, Hi: 0xA4CF, Stride: 1}, {Lo: 0xAC00, Hi: 0xD7A3, Stride: 1},
		{Lo: 0xF900, Hi: 0xFAFF, Stride: 1}, {Lo: 0xFE30, Hi: 0xFE6F, Stride: 1}, {Lo: 0xFF00, Hi: 0xFF60, Stride: 1}, {Lo: 0xFFE0, Hi: 0xFFE6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1F300, Hi: 0x1FAFF, Stride: 1}, {Lo: 0x20000, Hi: 0x3FFFD, Stride: 1}},
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
