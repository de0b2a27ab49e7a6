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

// String prints the resource as Slurm does in a job's allocated TRES.
func (i Item) String() string {
	s := i.Type
	if i.Name != "" {
		s += "/" + i.Name
	}
	if i.Model != "" {
		s += ":" + i.Model
	}
	if i.Type == "mem" {
		return s + "=" + formatMebibytes(i.Count)
	}
	return s + "=" + strconv.FormatUint(i.Count, 10)
}

// Parse reads a TRES expression with counts, as in a job's allocated TRES.
// Suffixes K, M, G, T and P are powers of 1024; of mem they count from MiB, as Slurm prints them.
// "(null)" and "N/A" are empty lists.
func Parse(s string) ([]Item, error) {
	if s == "(null)" || s == "N/A" {
		return nil, nil
	}
	var items []Item
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		it, problem := parseItem(part)
		if problem != "" {
			return nil, &Error{Input: s, Part: part, Problem: problem}
		}
		items = append(items, it)
	}
	return items, nil
}

func parseItem(part string) (it Item, problem string) {
	head, count, ok := strings.Cut(part, "=")
	if !ok {
		return it, "no name=count"
	}
	var hasName, hasModel bool
	it.Type, it.Name, hasName = strings.Cut(head, "/")
	it.Name, it.Model, hasModel = strings.Cut(it.Name, ":")
	if !isWord(it.Type) || hasName && !isWord(it.Name) || hasModel && !isWord(it.Model) {
		return it, "an empty name, or one with a character that Slurm doesn't allow"
	}
	read := integer
	if it.Type == "mem" {
		read = mebibytes
	}
	n, err := read(count)
	if err != nil {
		return it, err.Error()
	}
	it.Count = n
	return it, ""
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
	return fmt.Sprintf("resource expression %q: %q: %s", abbreviate(e.Input), abbreviate(e.Part), e.Problem)
}

func abbreviate(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return s
}
