// Package tres reads and writes Slurm's notations for trackable and generic
// resources: "cpu=4,mem=62.50G,gres/gpu:h200=2", "gpu:h200:4(S:0-1)" and "gpu:h200:2(IDX:0-1,3)".
package tres

import (
	"fmt"
	"strconv"
	"strings"
)

// Item is one resource of a TRES expression. Its count is in the resource's own
// unit: MiB for mem, 1 for most others.
type Item struct {
	// Type is "cpu", "mem", "node", "billing", "gres", "license", "fs", "ic", "bb" and so on.
	Type string
	// Name is what follows the slash, as "gpu" in "gres/gpu".
	Name string
	// Model is what follows the name's colon, as "h200" in "gres/gpu:h200".
	Model string
	Count uint64
}

func (i Item) String() string {
	s := i.Type
	if i.Name != "" {
		s += "/" + i.Name
	}
	if i.Model != "" {
		s += ":" + i.Model
	}
	return s + "=" + strconv.FormatUint(i.Count, 10)
}

// Parse reads a TRES expression with counts, as in a job's allocated TRES.
// Suffixes K, M, G, T and P are powers of 1024; of mem they count from MiB, as Slurm prints them.
func Parse(s string) ([]Item, error) {
	var items []Item
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, count, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return nil, &Error{Input: s, Part: part, Problem: "no name=count"}
		}
		var it Item
		it.Type, it.Name, _ = strings.Cut(name, "/")
		it.Name, it.Model, _ = strings.Cut(it.Name, ":")
		n, err := quantity(count, it.Type == "mem")
		if err != nil {
			return nil, &Error{Input: s, Part: part, Problem: err.Error()}
		}
		it.Count = n
		items = append(items, it)
	}
	return items, nil
}

// Format prints items as Parse reads them.
func Format(items []Item) string {
	parts := make([]string, len(items))
	for i, it := range items {
		parts[i] = it.String()
	}
	return strings.Join(parts, ",")
}

// Error tells which part of an expression can't be read, and why.
type Error struct{ Input, Part, Problem string }

func (e *Error) Error() string {
	return fmt.Sprintf("resource expression %q: %q: %s", e.Input, e.Part, e.Problem)
}

// quantity reads a count such as 16, 62.50G or 4K.
func quantity(s string, mebibytes bool) (uint64, error) {
	shift := 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGTP", s[n-1]&^0x20); i >= 0 && s[n-1] > '9' {
			shift, s = 10*(i+1), s[:n-1]
		}
	}
	if mebibytes && shift > 0 {
		shift -= 20
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return scale(n, shift)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || strings.ContainsAny(s, "xXpPiIn_") {
		return 0, fmt.Errorf("%q is not a count", s)
	}
	for ; shift > 0; shift -= 10 {
		f *= 1024
	}
	for ; shift < 0; shift += 10 {
		f /= 1024
	}
	if f >= 1<<63 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return uint64(f), nil
}

func scale(n uint64, shift int) (uint64, error) {
	if shift < 0 {
		return n >> -shift, nil
	}
	if n<<shift>>shift != n {
		return 0, fmt.Errorf("%d is too large", n)
	}
	return n << shift, nil
}
