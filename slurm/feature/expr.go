package feature

import (
	"slices"
	"strconv"
	"strings"
)

// Op joins a term to the ones before it.
type Op byte

// The operators.
const (
	And Op = '&'
	Or  Op = '|'
)

func (o Op) String() string { return string(rune(o)) }

// Expr is an expression: terms that are joined from left to right. The zero Expr
// has none, and every node matches it.
type Expr struct{ Terms []Term }

// Term is a feature, a group in parentheses, or a bracket: one of the three.
type Term struct {
	// Op joins the term to the ones before it. It has no meaning for the first.
	Op   Op
	Name string
	// Group is what stands in parentheses. It has names only.
	Group *Expr
	// Bracket has alternatives of which all nodes share one, or terms with counts.
	Bracket *Expr
	// Count is how many nodes must match the term, 0 where none is given.
	Count int
}

// Match tells whether a node with these features can be one of the job's nodes.
// An alternative in a bracket then binds the other nodes; so do counts.
func (e Expr) Match(features ...string) bool {
	return e.MatchFunc(func(name string) bool { return slices.Contains(features, name) })
}

// MatchFunc is Match for a node of which has tells the features.
func (e Expr) MatchFunc(has func(name string) bool) bool {
	ok := true
	for i, t := range e.Terms {
		switch match := t.match(has); {
		case i == 0:
			ok = match
		case t.Op == Or:
			ok = ok || match
		default:
			ok = ok && match
		}
	}
	return ok
}

func (t Term) match(has func(string) bool) bool {
	switch {
	case t.Group != nil:
		return t.Group.MatchFunc(has)
	case t.Bracket != nil:
		return slices.ContainsFunc(t.Bracket.Terms, func(t Term) bool { return t.match(has) })
	}
	return has(t.Name)
}

// Names returns the features that the expression speaks of, each once, in its order.
func (e Expr) Names() []string {
	var names []string
	for _, t := range e.Terms {
		found := []string{t.Name}
		if t.Group != nil {
			found = t.Group.Names()
		} else if t.Bracket != nil {
			found = t.Bracket.Names()
		}
		for _, n := range found {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

// String prints the expression as Parse reads it.
func (e Expr) String() string {
	var b strings.Builder
	e.print(&b)
	return b.String()
}

func (e Expr) print(b *strings.Builder) {
	for i, t := range e.Terms {
		if i > 0 {
			b.WriteString(t.Op.String())
		}
		switch {
		case t.Group != nil:
			b.WriteByte('(')
			t.Group.print(b)
			b.WriteByte(')')
		case t.Bracket != nil:
			b.WriteByte('[')
			t.Bracket.print(b)
			b.WriteByte(']')
		default:
			b.WriteString(t.Name)
		}
		if t.Count > 0 {
			b.WriteString("*" + strconv.Itoa(t.Count))
		}
	}
}
