package tres

import (
	"slices"
	"strconv"
	"strings"
)

// maxIndex bounds what a range may expand to; no node has that many devices or cores.
const maxIndex = 1 << 16

// ParseIndexes reads ranges such as "0-1,3" and returns the numbers, ascending
// and without repeats. The empty text and "N/A" give none.
func ParseIndexes(s string) ([]int, error) {
	if s == "" || s == "N/A" || s == "(null)" {
		return nil, nil
	}
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := index(first)
		to, err2 := index(last)
		switch {
		case err != nil || err2 != nil:
			return nil, &Error{Input: s, Part: part, Problem: "not a number or range"}
		case to < from:
			return nil, &Error{Input: s, Part: part, Problem: "the range runs backwards"}
		case to >= maxIndex || len(out) > maxIndex:
			return nil, &Error{Input: s, Part: part, Problem: "too many numbers"}
		}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func index(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// FormatIndexes prints numbers as ranges: [0 1 3] as "0-1,3".
func FormatIndexes(indexes []int) string {
	sorted := slices.Clone(indexes)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	var b strings.Builder
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(sorted[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(sorted[j]))
		}
		i = j + 1
	}
	return b.String()
}
