// Package hostlist reads and writes Slurm's short form of node names:
// "n[01-03,7],gpu[1-2]-[a1,a2],login" and the like.
package hostlist

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DefaultLimit is how many names Expand gives at most. Slurm itself has 65,536 nodes at most.
const DefaultLimit = 1 << 20

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

// Expand returns the names of an expression in its order, repeats included.
// It fails on more than DefaultLimit names.
func Expand(expr string) ([]string, error) { return ExpandLimit(expr, DefaultLimit) }

// ExpandLimit is Expand with a limit of the caller's. Memory stays in proportion
// to the limit whatever the expression says.
func ExpandLimit(expr string, limit int) ([]string, error) {
	p := parser{expr: expr, limit: limit}
	for p.pos < len(expr) {
		if err := p.item(); err != nil {
			return nil, err
		}
	}
	return p.names, nil
}

type parser struct {
	expr  string
	pos   int
	limit int
	names []string
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Expr: p.expr, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

func (p *parser) tooMany(at int) error {
	return &Error{Expr: p.expr, Offset: at, Problem: fmt.Sprintf("more than %d names", p.limit), Kind: ErrTooMany}
}

// item reads up to the next comma outside brackets. It keeps the list of
// prefixes that the part read so far stands for.
func (p *parser) item() error {
	start := p.pos
	heads := []string{""}
	for p.pos < len(p.expr) && p.expr[p.pos] != ',' {
		from := p.pos
		if p.expr[p.pos] == '[' {
			tails, err := p.bracket(p.limit/len(heads) + 1)
			if err != nil {
				return err
			}
			heads = product(heads, tails)
		} else {
			for p.pos < len(p.expr) && !strings.ContainsRune("[,", rune(p.expr[p.pos])) {
				if c := p.expr[p.pos]; c == ']' || c < ' ' || c == 0x7f {
					return p.fail(p.pos, "unexpected %q", c)
				}
				p.pos++
			}
			text := strings.Trim(p.expr[from:p.pos], " ")
			for i := range heads {
				heads[i] += text
			}
		}
		if len(p.names)+len(heads) > p.limit {
			return p.tooMany(from)
		}
	}
	p.pos++ // the comma
	if len(heads) == 1 && heads[0] == "" {
		if strings.TrimSpace(p.expr) == "" {
			return nil
		}
		return p.fail(start, "an empty name")
	}
	p.names = append(p.names, heads...)
	return nil
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// bracket reads "[1-3,07]" and returns the texts that it stands for.
func (p *parser) bracket(limit int) ([]string, error) {
	start := p.pos
	length := strings.IndexByte(p.expr[start:], ']')
	if length < 0 {
		return nil, p.fail(start, "the bracket isn't closed")
	}
	at := start + 1
	var out []string
	for part := range strings.SplitSeq(p.expr[at:start+length], ",") {
		var err error
		if out, err = p.numbers(out, at, part, limit); err != nil {
			return nil, err
		}
		at += len(part) + 1
	}
	p.pos = start + length + 1
	return out, nil
}

// numbers appends what one number or range stands for. The first number's
// leading zeros give the width of all.
func (p *parser) numbers(out []string, at int, part string, limit int) ([]string, error) {
	first, last, isRange := strings.Cut(part, "-")
	if !isRange {
		last = first
	}
	from, err := number(first)
	to, err2 := number(last)
	switch {
	case err != nil || err2 != nil:
		return nil, p.fail(at, "%q is no number or range of numbers", part)
	case to < from:
		return nil, p.fail(at, "range %q runs backwards", part)
	case to-from >= uint64(limit) || len(out)+int(to-from) >= limit:
		return nil, p.tooMany(at)
	}
	width := 0
	if first[0] == '0' {
		width = len(first)
	}
	for n := from; n <= to; n++ {
		out = append(out, pad(n, width))
	}
	return out, nil
}

// maxDigits keeps numbers well within 64 bits.
const maxDigits = 18

func number(s string) (uint64, error) {
	if len(s) > maxDigits {
		return 0, strconv.ErrRange
	}
	return strconv.ParseUint(s, 10, 64)
}

func pad(n uint64, width int) string {
	s := strconv.FormatUint(n, 10)
	if len(s) < width {
		s = strings.Repeat("0", width-len(s)) + s
	}
	return s
}
