package tres

import (
	"strconv"
	"strings"
)

// GRES is one generic resource of a node, of a request or of an allocation.
type GRES struct {
	// Name is as in GresTypes, Type as in gres.conf; Type is empty for none.
	Name, Type string
	Count      uint64
	// NoConsume tells that jobs use the resource together, without taking it from each other.
	NoConsume bool
	// Sockets are what follows "S:": the sockets that the resource is bound to,
	// ascending. Nil means that Slurm names none.
	Sockets []int
	// Indexes are the device numbers that follow "IDX:", ascending. They are empty
	// but not nil for "IDX:N/A", and nil if Slurm doesn't speak of indexes.
	Indexes []int
	// Detail is other text that Slurm prints in parentheses, such as what is used
	// of each device's shares: "2/4,0/4".
	Detail string
}

// String prints the resource as Slurm does, with a plain number as its count.
func (g GRES) String() string {
	s := g.Name
	if g.Type != "" {
		s += ":" + g.Type
	}
	if g.NoConsume {
		s += ":" + noConsume
	}
	s += ":" + strconv.FormatUint(g.Count, 10)
	switch {
	case g.Indexes != nil && len(g.Indexes) == 0:
		s += "(IDX:N/A)"
	case g.Indexes != nil:
		s += "(IDX:" + FormatIndexes(g.Indexes) + ")"
	case g.Sockets != nil:
		s += "(S:" + FormatIndexes(g.Sockets) + ")"
	case g.Detail != "":
		s += "(" + g.Detail + ")"
	}
	return s
}

// FormatGRES prints a list as ParseGRES reads it.
func FormatGRES(list []GRES) string {
	parts := make([]string, len(list))
	for i, g := range list {
		parts[i] = g.String()
	}
	return strings.Join(parts, ",")
}

const noConsume = "no_consume"

// ParseGRES reads a list as Slurm prints it for nodes and jobs, and as it takes
// it in requests: name[:type][:no_consume][:count][(S:…)|(IDX:…)], separated by
// commas, each maybe with "gres/" in front and with an equals sign before its
// count. A missing count is 1; its suffixes K, M, G, T and P are powers of 1024.
// "(null)" and "N/A" are empty lists.
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
			return g, "no closing parenthesis at the end"
		}
		s = s[:open]
		if problem := g.parseDetail(detail); problem != "" {
			return g, problem
		}
	}
	head, count, equals := strings.Cut(s, "=")
	fields := strings.Split(head, ":")
	for _, f := range fields {
		if !isWord(f) {
			return g, "an empty name or type, or one with a character that Slurm doesn't allow"
		}
	}
	if n := len(fields) - 1; !equals && n > 0 && fields[n][0] >= '0' && fields[n][0] <= '9' {
		// After "gpu:" 1g.10gb is a type, 4x is neither.
		if _, err := integer(fields[n]); err == nil || n > 1 {
			count, equals, fields = fields[n], true, fields[:n]
		}
	}
	if g.Count = 1; equals {
		n, err := integer(count)
		if err != nil {
			return g, err.Error()
		}
		g.Count = n
	}
	g.Name, fields = fields[0], fields[1:]
	if n := len(fields) - 1; n >= 0 && fields[n] == noConsume {
		g.NoConsume, fields = true, fields[:n]
	}
	if len(fields) > 1 {
		return g, "more than name, type and count"
	}
	if len(fields) == 1 {
		g.Type = fields[0]
	}
	return g, ""
}

// parseDetail reads what stands in parentheses.
func (g *GRES) parseDetail(s string) (problem string) {
	kind, list, _ := strings.Cut(s, ":")
	switch kind {
	case "IDX", "S":
		indexes, err := ParseIndexes(list)
		switch {
		case err != nil:
			return err.Error()
		case kind == "S" && indexes != nil:
			g.Sockets = indexes
		case kind == "IDX" && indexes == nil:
			g.Indexes = []int{}
		case kind == "IDX":
			g.Indexes = indexes
		}
	default:
		if strings.ContainsAny(s, "()") {
			return "parentheses within parentheses"
		}
		g.Detail = s
	}
	return ""
}

// isWord tells whether s can be a name or a type.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`,:=()[]"/`, r)
	})
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
