package tres

import (
	"strconv"
	"strings"
)

// GRES is one generic resource of a node or of an allocation.
type GRES struct {
	Name, Type string
	Count      uint64
	// Sockets is what follows "S:", as "0-1": the sockets that the resource is bound to.
	Sockets string
	// Indexes are the device numbers that follow "IDX:", ascending.
	Indexes []int
}

func (g GRES) String() string {
	s := g.Name
	if g.Type != "" {
		s += ":" + g.Type
	}
	s += ":" + strconv.FormatUint(g.Count, 10)
	switch {
	case g.Indexes != nil:
		s += "(IDX:" + FormatIndexes(g.Indexes) + ")"
	case g.Sockets != "":
		s += "(S:" + g.Sockets + ")"
	}
	return s
}

// ParseGRES reads a list as Slurm prints it for nodes and jobs, and as it takes
// it in requests: name[:type][:count][(S:…)|(IDX:…)], separated by commas, each
// maybe with "gres/" in front. A missing count is 1. "(null)" and "N/A" are empty lists.
func ParseGRES(s string) ([]GRES, error) {
	if s == "(null)" || s == "N/A" {
		return nil, nil
	}
	var list []GRES
	for _, part := range splitOutside(s) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		g, problem := parseGRES(strings.TrimPrefix(strings.TrimPrefix(part, "gres/"), "gres:"))
		if problem != "" {
			return nil, &Error{Input: s, Part: part, Problem: problem}
		}
		list = append(list, g)
	}
	return list, nil
}

func parseGRES(s string) (g GRES, problem string) {
	if open := strings.IndexByte(s, '('); open >= 0 {
		detail, ok := strings.CutSuffix(s[open+1:], ")")
		if !ok {
			return g, "no closing parenthesis"
		}
		s = s[:open]
		if rest, ok := strings.CutPrefix(detail, "IDX:"); ok {
			indexes, err := ParseIndexes(rest)
			if err != nil {
				return g, err.Error()
			}
			g.Indexes = indexes
		} else {
			g.Sockets = strings.TrimPrefix(detail, "S:")
		}
	}
	fields := strings.Split(strings.ReplaceAll(s, "=", ":"), ":")
	g.Name, g.Count = fields[0], 1
	if g.Name == "" {
		return g, "no name"
	}
	switch len(fields) {
	case 1:
		return g, ""
	case 2:
		if n, err := quantity(fields[1], false); err == nil {
			g.Count = n
			return g, ""
		}
		g.Type = fields[1]
		return g, ""
	case 3:
		n, err := quantity(fields[2], false)
		if err != nil {
			return g, err.Error()
		}
		g.Type, g.Count = fields[1], n
		return g, ""
	}
	return g, "more than name, type and count"
}

// splitOutside splits at commas that are not within parentheses.
func splitOutside(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, s[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, s[start:])
}
