package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultLimit is how many names Expand gives at most. Slurm itself has 65,536 nodes at most.
const DefaultLimit = 1 << 20

// maxName bounds the length of a name in bytes, which Slurm has buffers of 1,024 bytes for.
const maxName = 1023

// ErrTooMany is the kind of error for an expression with more names than asked for.
var ErrTooMany = errors.New("too many names")

// Error tells where an expression is wrong, and why.
type Error struct {
	Expr string
	// Offset is the byte that the problem was found at.
	Offset  int
	Problem string
	// Kind is ErrTooMany or nil.
	Kind error
}

func (e *Error) Error() string {
	expr := e.Expr
	if len(expr) > 100 {
		expr = expr[:100] + "..."
	}
	return fmt.Sprintf("hostlist %q: at byte %d: %s", expr, e.Offset, e.Problem)
}

func (e *Error) Unwrap() error { return e.Kind }

// Expand returns the names of an expression in its order, repeats included. Of
// several brackets in one name the last runs fastest, then the first, the second
// and so on, as in Slurm. It fails on more than DefaultLimit names.
func Expand(expr string) ([]string, error) { return ExpandLimit(expr, DefaultLimit) }

// ExpandLimit is Expand with a limit of the caller's. Memory stays in proportion
// to the limit whatever the expression says.
func ExpandLimit(expr string, limit int) ([]string, error) {
	p := parser{expr: expr, limit: limit}
	var names printer
	for p.pos < len(expr) {
		if separates(expr[p.pos]) {
			p.pos++
			continue
		}
		start := p.pos
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		if it.count > limit-len(names.names) {
			return nil, p.tooMany(start)
		}
		names.names = slices.Grow(names.names, it.count)
		it.print(&names)
	}
	return names.names, nil
}

func separates(c byte) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' }

type parser struct {
	expr  string
	pos   int
	limit int
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Expr: p.expr, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

func (p *parser) tooMany(at int) error {
	return &Error{Expr: p.expr, Offset: at, Problem: fmt.Sprintf("more than %d names", p.limit), Kind: ErrTooMany}
}

// span is a number, or a range of them, within a bracket.
type span struct {
	first, last uint64
	// width is what zeros pad the numbers to.
	width int
}

// bracket is one bracket and the text before it.
type bracket struct {
	text  string
	spans []span
}

// item is what stands between two separators.
type item struct {
	brackets []bracket
	// tail is the text after the last bracket.
	tail  string
	count int
}

// item reads up to the next separator outside brackets.
func (p *parser) item() (item, error) {
	it := item{count: 1}
	start, longest := p.pos, 0
	for p.pos < len(p.expr) && !separates(p.expr[p.pos]) {
		text, err := p.text()
		if err != nil {
			return it, err
		}
		if longest += len(text); p.pos == len(p.expr) || p.expr[p.pos] != '[' {
			it.tail = text
		} else {
			from := p.pos
			spans, n, widest, err := p.bracket()
			if err != nil {
				return it, err
			}
			if n > p.limit/it.count {
				return it, p.tooMany(from)
			}
			it.count *= n
			longest += widest
			it.brackets = append(it.brackets, bracket{text, spans})
		}
		if longest > maxName {
			return it, p.fail(start, "a name of more than %d bytes", maxName)
		}
	}
	return it, nil
}

// text reads up to the next bracket or separator.
func (p *parser) text() (string, error) {
	from := p.pos
	for ; p.pos < len(p.expr); p.pos++ {
		switch c := p.expr[p.pos]; {
		case c == '[' || separates(c):
			return p.expr[from:p.pos], nil
		case c == '{':
			return "", p.fail(p.pos, "a function such as feature{gpu} can be answered by slurmctld only")
		case c == ']' || c == '}' || c < ' ' || c == 0x7f:
			return "", p.fail(p.pos, "unexpected %q", c)
		}
	}
	return p.expr[from:], nil
}

// bracket reads "[1-3,07]". It returns how many numbers that is, and the length of the longest.
func (p *parser) bracket() (spans []span, count, widest int, err error) {
	start := p.pos
	length := strings.IndexByte(p.expr[start:], ']')
	if length < 0 {
		return nil, 0, 0, p.fail(start, "the bracket isn't closed")
	}
	at := start + 1
	for part := range strings.SplitSeq(p.expr[at:start+length], ",") {
		s, err := p.span(at, part)
		if err != nil {
			return nil, 0, 0, err
		}
		if s.last-s.first >= uint64(p.limit-count) {
			return nil, 0, 0, p.tooMany(at)
		}
		count += int(s.last-s.first) + 1
		widest = max(widest, s.width, digits(s.last))
		spans = append(spans, s)
		at += len(part) + 1
	}
	p.pos = start + length + 1
	return spans, count, widest, nil
}

// span reads one number or range. The first number's leading zeros give the width of all.
func (p *parser) span(at int, part string) (span, error) {
	first, last, isRange := strings.Cut(part, "-")
	if !isRange {
		last = first
	}
	s := span{width: len(first)}
	var ok, ok2 bool
	s.first, ok = number(first)
	s.last, ok2 = number(last)
	switch {
	case !ok || !ok2:
		return s, p.fail(at, "%q is no number or range of numbers", part)
	case s.last < s.first:
		return s, p.fail(at, "range %q runs backwards", part)
	}
	return s, nil
}

func number(s string) (uint64, bool) {
	if s == "" || len(s) > maxName {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil
}

// digits is how many digits a number has.
func digits(n uint64) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// print gives all names of an item to out. Brackets but the last are turned like
// the wheels of a counter of which the first is the fastest.
func (it item) print(out *printer) {
	if len(it.brackets) == 0 {
		out.name(it.tail)
		return
	}
	outer, last := it.brackets[:len(it.brackets)-1], it.brackets[len(it.brackets)-1]
	wheels := make([]wheel, len(outer))
	for i := range wheels {
		wheels[i] = wheel{spans: outer[i].spans, n: outer[i].spans[0].first}
	}
	var prefix []byte
	for {
		prefix = prefix[:0]
		for i, w := range wheels {
			prefix = append(prefix, outer[i].text...)
			prefix = appendNumber(prefix, w.n, w.spans[w.span].width)
		}
		prefix = append(prefix, last.text...)
		for _, s := range last.spans {
			out.span(prefix, s, it.tail)
		}
		if !turn(wheels) {
			return
		}
	}
}

// wheel is one bracket's present number.
type wheel struct {
	spans []span
	span  int
	n     uint64
}

// turn moves on to the next numbers, and tells whether there are any.
func turn(wheels []wheel) bool {
	for i := range wheels {
		w := &wheels[i]
		if w.n < w.spans[w.span].last {
			w.n++
			return true
		}
		if w.span++; w.span < len(w.spans) {
			w.n = w.spans[w.span].first
			return true
		}
		w.span, w.n = 0, w.spans[0].first
	}
	return false
}

// printer collects names. Names lie in blocks of a few kilobytes, so that a
// hundred thousand of them are few allocations, yet one name kept keeps little else.
type printer struct {
	names []string
	block strings.Builder
	one   []byte
}

const blockSize = 4096

func (p *printer) name(s string) { p.names = append(p.names, strings.Clone(s)) }

func (p *printer) span(prefix []byte, s span, tail string) {
	for n := s.first; n <= s.last; n++ {
		p.one = appendNumber(append(p.one[:0], prefix...), n, s.width)
		p.one = append(p.one, tail...)
		if p.block.Len()+len(p.one) > p.block.Cap() {
			p.block.Reset()
			p.block.Grow(blockSize)
		}
		at := p.block.Len()
		p.block.Write(p.one)
		p.names = append(p.names, p.block.String()[at:])
	}
}

func appendNumber(to []byte, n uint64, width int) []byte {
	at := len(to)
	to = strconv.AppendUint(to, n, 10)
	if missing := width - (len(to) - at); missing > 0 {
		for range missing {
			to = append(to, '0')
		}
		copy(to[at+missing:], to[at:])
		for i := range missing {
			to[at+i] = '0'
		}
	}
	return to
}
