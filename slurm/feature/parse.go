package feature

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxLength is the longest expression in bytes that Parse takes.
const MaxLength = 64 << 10

// Error tells where an expression is wrong, and why.
type Error struct {
	Expr string
	// Offset is the byte that the problem was found at.
	Offset  int
	Problem string
}

func (e *Error) Error() string {
	expr := e.Expr
	if len(expr) > 100 {
		expr = expr[:100] + "..."
	}
	return fmt.Sprintf("feature expression %q: at byte %d: %s", expr, e.Offset, e.Problem)
}

// Parse reads an expression. The empty text is the empty expression, which any node matches.
func Parse(expr string) (Expr, error) {
	p := parser{expr: expr}
	if expr == "" {
		return Expr{}, nil
	}
	if len(expr) > MaxLength {
		return Expr{}, p.fail(MaxLength, "longer than %d bytes", MaxLength)
	}
	e, err := p.list(0)
	if err != nil {
		return Expr{}, err
	}
	if err := p.check(e); err != nil {
		return Expr{}, err
	}
	return e, nil
}

type parser struct {
	expr string
	pos  int
	// at has where each term of the outermost list begins.
	at []int
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Expr: p.expr, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.pos < len(p.expr) {
		return p.expr[p.pos]
	}
	return 0
}

// list reads terms up to the closing byte that belongs to within, which is 0 for the whole expression.
func (p *parser) list(within byte) (Expr, error) {
	var e Expr
	op := And
	for {
		if within == 0 {
			p.at = append(p.at, p.pos)
		}
		t, err := p.term(within)
		if err != nil {
			return e, err
		}
		t.Op = op
		e.Terms = append(e.Terms, t)
		if p.pos == len(p.expr) {
			if within != 0 {
				return e, p.fail(p.pos, "%q isn't closed", within)
			}
			return e, nil
		}
		switch c := p.expr[p.pos]; {
		case c == '&' || c == ',':
			op = And
		case c == '|':
			op = Or
		case within != 0 && c == closing(within):
			p.pos++
			return e, nil
		default:
			return e, p.fail(p.pos, "%q where an operator, & or |, must be", rune(c))
		}
		p.pos++
	}
}

func closing(open byte) byte {
	if open == '(' {
		return ')'
	}
	return ']'
}

func (p *parser) term(within byte) (Term, error) {
	var t Term
	var err error
	start := p.pos
	switch c := p.peek(); {
	case c == '(' || c == '[':
		if within == '(' || c == '[' && within == '[' {
			return t, p.fail(p.pos, "%q within %q", rune(c), rune(within))
		}
		p.pos++
		var inner Expr
		if inner, err = p.list(c); err != nil {
			return t, err
		}
		if c == '(' {
			t.Group = &inner
		} else if t.Bracket, err = p.bracket(start, inner); err != nil {
			return t, err
		}
	default:
		if t.Name, err = p.name(); err != nil {
			return t, err
		}
	}
	if p.peek() == '*' {
		if t.Bracket != nil || within == '(' || within == 0 && t.Group != nil {
			return t, p.fail(p.pos, "a count here: it must follow a feature, or a group within brackets")
		}
		p.pos++
		t.Count, err = p.count()
	}
	return t, err
}

func (p *parser) name() (string, error) {
	start := p.pos
	for p.pos < len(p.expr) && inName(p.expr[p.pos]) {
		p.pos++
	}
	if p.pos == start {
		if p.pos == len(p.expr) {
			return "", p.fail(p.pos, "the expression ends where a feature must be")
		}
		return "", p.fail(p.pos, "%q where a feature must be", rune(p.expr[p.pos]))
	}
	return p.expr[start:p.pos], nil
}

// inName tells whether a feature's name may have c.
func inName(c byte) bool { return c > ' ' && c != 0x7f && !strings.ContainsRune(`&|,*()[]"`, rune(c)) }

func (p *parser) count() (int, error) {
	start := p.pos
	for p.pos < len(p.expr) && p.expr[p.pos] >= '0' && p.expr[p.pos] <= '9' {
		p.pos++
	}
	n, err := strconv.ParseInt(p.expr[start:p.pos], 10, 32)
	if err != nil || n == 0 {
		return 0, p.fail(start, "the count must be a number from 1 to %d", 1<<31-1)
	}
	return int(n), nil
}

// bracket checks that all of a bracket's terms have counts and are joined by &,
// or have none and are joined by |. A single term may have one or not.
func (p *parser) bracket(at int, e Expr) (*Expr, error) {
	counted := e.Terms[0].Count > 0
	for _, t := range e.Terms[1:] {
		if (t.Count > 0) != counted {
			return nil, p.fail(at, "a bracket in which some features have a count and some don't")
		}
		if want := map[bool]Op{true: And, false: Or}[counted]; t.Op != want {
			return nil, p.fail(at, "a bracket whose features are joined by %s: features with counts are joined by &, others by |", t.Op)
		}
	}
	return &e, nil
}

// check tells what the outermost list can't have.
func (p *parser) check(e Expr) error {
	bracket := -1
	for i, t := range e.Terms {
		if t.Bracket != nil {
			if bracket >= 0 {
				return p.fail(p.at[i], "a second bracket")
			}
			bracket = i
		}
		if t.Count > 0 && len(e.Terms) > 1 {
			return p.fail(p.at[i], "a count beside other features: put all features and their counts into one bracket")
		}
	}
	if bracket < 0 || len(e.Terms) == 1 {
		return nil
	}
	if e.Terms[bracket].Bracket.Terms[0].Count > 0 {
		return p.fail(p.at[bracket], "counts in a bracket beside other features: Slurm would ignore these")
	}
	if e.Terms[bracket].Op == Or || bracket+1 < len(e.Terms) && e.Terms[bracket+1].Op == Or {
		return p.fail(p.at[bracket], "a bracket beside |: Slurm would read another meaning")
	}
	return nil
}
